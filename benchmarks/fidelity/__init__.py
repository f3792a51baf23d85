"""What the measurements of fidelity share: the public data, and the first system beside ours.

data.py      where tasks, trees and recordings lie; the setup script with the dates of a recording
sql_data.py  the same for SQL
first.py     the first system, played by first_driver.py in a Python of its own
beside.py    what it answers today, as a recording that ours is compared with
floor.py     agents that look at nothing
"""
