"""What the measurements of fidelity share: the public data, and InterCode v1 beside ours.

data.py      where tasks, trees and recordings lie, and what is missing to play them
v1.py        InterCode v1, played by v1_driver.py in a Python of its own
"""
