"""The docker backend: any image, one container a sandbox, the same guest as behind the local wall.

    images.py      what the user names ─► an image with its tree and setup, cached by content
    sandbox.py     the contract: exec, read, write over the guest's line; diff, reset, fork
    pool.py        fresh containers, started before they are wanted
    container.py   one `docker run`, attached: its stdin and stdout are the line to the guest
    bundle.py      the interpreter that runs the guest, mounted read-only: images need no Python
    leftovers.py   containers whose process is gone       daemon.py   the docker command, and what its complaints mean

Everything goes through the `docker` command, so that whatever that reaches will do: DOCKER_HOST, contexts, podman's socket. The
daemon must run on this machine, or see its files at the same paths: the bundle is mounted from the cache.
"""
