"""Labelled answers for `reward_truth.py`: what of them each environment's rewards accept. One file
for each environment."""
