"""Waiting for nodes to say that they are ready, each with one line of JSON.

What a node says instead, when it dies, is its last lines on standard error.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.cluster.processes import NodeProcess

READ_BYTES = 64 * 1024
EXPECTED_CODES = (1, 2)  # a node that could say in one line what was wrong


class NodeDied(Exception):
    """A node ended that should run; ``last_lines`` is what it said about it."""

    def __init__(self, name: str, code: int, last_lines: Sequence[str]) -> None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        said_it_all = len(last_lines) == 1 and code in EXPECTED_CODES
        super().__init__("\n".join(last_lines if said_it_all else [f"{name} {how}", *last_lines]))
        self.name = name
        self.code = code
        self.last_lines = tuple(last_lines)


class NotReady(Exception):
    """Nodes that run and did not become ready in time."""


def wait_all_ready(nodes: Sequence[NodeProcess], within_s: float) -> None:
    """Until every node has said where it listens.  Raises ``NodeDied`` and ``NotReady``."""
    until_s = time.monotonic() + within_s
    heard = {node.name: b"" for node in nodes}
    with selectors.DefaultSelector() as selector:
        for node in nodes:
            assert node.popen.stdout is not None
            selector.register(node.popen.stdout, selectors.EVENT_READ, node)
        while heard:
            ready = selector.select(max(0.0, until_s - time.monotonic()))
            if not ready:
                raise NotReady(f"not ready after {within_s:g} s: {', '.join(heard)}")
            for key, _ in ready:
                node = key.data
                heard[node.name] += _more(node)
                if b"\n" in heard[node.name]:
                    node.address = json.loads(heard.pop(node.name))["address"]
                    selector.unregister(key.fileobj)


def _more(node: NodeProcess) -> bytes:
    assert node.popen.stdout is not None
    if data := os.read(node.popen.stdout.fileno(), READ_BYTES):
        return data
    raise NodeDied(node.name, node.popen.wait(), node.last_lines())
