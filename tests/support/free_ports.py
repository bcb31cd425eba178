"""Ports of this machine that are free for a server of a test.

The ports of a cluster follow from its NameServer's.  They are drawn below 32,768, where the
kernel's ports for connections begin: no connection can take one between the check and the start.
"""

from __future__ import annotations

import contextlib
import random
import socket

BEFORE_CONNECTIONS = range(20_000, 31_000)


def free_port() -> int:
    with socket.create_server(("0.0.0.0", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def free_cluster_port() -> int:
    """A NameServer's port; its cluster's other ports are also free: one broker's, and control."""
    for port in random.sample(BEFORE_CONNECTIONS, len(BEFORE_CONNECTIONS)):
        wanted = (port - 1, port, port + 1_035, port + 1_135)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for number in wanted:
                stack.enter_context(socket.create_server(("0.0.0.0", number)))
            return port
    raise RuntimeError(f"no port of {BEFORE_CONNECTIONS} is free for a cluster")
