"""The docker backend: any image, a container as the wall, the same guest as behind the local one.

    images.py      what the user names ─► an image with its tree and setup, cached by content
    sandbox.py     the contract, in cells as behind the local wall
    wall.py        `docker run`, and a container with the keeper in it
    pool.py        fresh ones, started before they are wanted
    bundle.py      the interpreter that runs the guest, mounted read-only: images need no Python
    leftovers.py   containers whose process is gone       daemon.py   the docker command, and what its complaints mean

Everything goes through the `docker` command, so that whatever that reaches will do: DOCKER_HOST, contexts, podman's socket. The
daemon must run on this machine, or see its files at the same paths: the bundle is mounted from the cache.
"""
