"""Many machines over Ray. Within intercode only the command line imports this package; Ray is
imported when it is used.

driver.py     the executor that plays an evaluation: hands out episodes, and loses none to a lost
              node
envs.py       environments on the nodes for a `RolloutPool`
host.py       what runs on a node
shipping.py   the files that a run needs, sent once to each node
nodes.py      the connection, and the nodes of the cluster
"""
