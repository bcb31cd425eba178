"""A node with a busy loop ends with its parent, or at a second signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.paths import ROOT, SUPPORT

PROGRAM = SUPPORT / "cluster" / "busy_node.py"
BUSY_NODE = [sys.executable, str(PROGRAM), "nameserver", "{}", "--with-parent"]
PATIENCE_S = 20  # generous: a node that needs its loop to end never ends


@pytest.fixture
def busy():
    """A busy node that is ready; closing its standard input is the end of its parent."""
    with subprocess.Popen(
        BUSY_NODE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert b'"ready": true' in process.stdout.readline()
        yield process
        process.kill()


def test_a_busy_node_ends_with_its_parent(busy) -> None:
    busy.stdin.close()
    assert busy.wait(PATIENCE_S) == 1


def test_a_busy_node_ends_at_the_second_signal(busy) -> None:
    busy.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        busy.wait(0.5)  # the busy loop does not see the first signal
    busy.send_signal(signal.SIGINT)
    assert busy.wait(PATIENCE_S) == 128 + signal.SIGINT
