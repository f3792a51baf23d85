"""What the measurements of fidelity share: the public data, the first system's looks, re-execution, and causes.

data.py      where tasks, trees and recordings lie; the setup script with the dates of a recording
scenes.py    a recorded episode executed again, and again with one thing changed
text.py      when two texts say the same: reordered, other dates or numbers
causes.py    one rule for each cause of a disagreement, each an experiment
"""
