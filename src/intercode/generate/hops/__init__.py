"""Questions in plain English whose noun phrases have to be looked up one after another.

schema.py    a domain as data: types, tables, hops and their English (one TOML a domain)
worlds.py    the rows of a domain, drawn anew for each place
terms.py     hops as functions, their alternatives, and walks over hops that are needed
english.py   the question of a term
layouts.py   how each table of a place is written: carrier, path, columns, forms
carriers.py  a table as a file (CSV, JSON, mail, git, …), and the command that looks a value up
sql.py       the same tables as one database, and a term as one nested query
families.py  the families bash-questions and sql-questions
rounds.py    the families bash-rounds and sql-rounds, whose requests change from round to round
"""

from intercode.generate.hops import families, rounds

FAMILIES = (*families.FAMILIES, *rounds.FAMILIES)
