"""Rewards and run logs of InterCode v1, the system in the paper (Yang et al., NeurIPS 2023)."""
