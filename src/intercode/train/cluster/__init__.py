"""Hosts: processes that play, on the machines of a Ray cluster or on this one. The command line and
pools import this package when they use it, and Ray is imported when a cluster is used.

base.py       what a cluster, a node and a host are
nodes.py      a cluster of Ray
processes.py  processes of this machine
hosts.py      one host on each node, replaced when it is lost
host.py       what runs in a host
driver.py     the executor that plays an evaluation: hands out episodes, and loses none to a lost
              host
envs.py       environments in hosts for a `RolloutPool`
shipping.py   the files that a run needs, sent once to each node of a Ray cluster
"""
