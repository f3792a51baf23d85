"""What the measurements of fidelity share: the public data, the first system's looks, re-execution, and causes.

data.py      where tasks, trees and recordings lie; the setup script with the dates of a recording
scenes.py    a recorded episode executed again, and again with one thing changed
text.py      when two texts say the same: reordered, other dates or numbers
causes.py    one rule for each cause of a disagreement, each an experiment
proof.py     what a rule answers with
control.py   whether the rules can say no
floor.py     agents that look at nothing

sql_data.py, sql_scenes.py and sql_causes.py are the same for SQL.
"""
