"""A Ray cluster on this machine, as a process: it prints the address, then takes lines of JSON and
answers each with `done`.

    ["add", "node-a", {"VARIABLE": "value"}]     ["remove", "node-a"]     the end of stdin ends the
                                                                          cluster

The head plays nothing, and a driver attaches to it, so that the driver outlives every node.
`remove` is a loss without a word.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile

from ray.cluster_utils import Cluster

SMALL = {"object_store_memory": 80_000_000, "include_dashboard": False}

folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
os.environ |= {"RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0"}
os.makedirs("/tmp/ray", exist_ok=True)  # where Ray writes down the address, whatever its folder is
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "temp_dir": folder, **SMALL})
nodes = {}
print(cluster.address, flush=True)
try:
    for line in sys.stdin:
        what, name, *more = json.loads(line)
        if what == "add":
            before = dict(os.environ)
            os.environ.update(*more)  # a raylet and its workers inherit the variables
            address = f"127.0.0.{len(nodes) + 2}"
            nodes[name] = cluster.add_node(
                num_cpus=1, node_name=name, node_ip_address=address, wait=False, **SMALL
            )
            os.environ.clear()
            os.environ.update(before)
        else:
            cluster.remove_node(nodes[name], allow_graceful=False)
        print("done", flush=True)
finally:
    cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
