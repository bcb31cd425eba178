"""``rmqemu … | head``: no error is printed after the reader has closed the pipe."""

from __future__ import annotations

import subprocess

import pytest

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.support.cli.command_line import PATIENCE_S, RMQEMU, environment, rmqemu

LINES = b"a line\n" * 300


@pytest.fixture(scope="module")
def namesrv():
    with EmbeddedCluster(ClusterSpec()) as cluster:
        rmqemu("produce", "--topic=many", stdin=LINES, NAMESRV_ADDR=cluster.namesrv)
        yield cluster.namesrv


def complaints(namesrv: str, *arguments: str) -> bytes:
    """The standard error of a command whose standard output was closed."""
    command = subprocess.Popen(
        [*RMQEMU, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(NAMESRV_ADDR=namesrv),
    )
    assert command.stdout is not None
    command.stdout.close()
    command.stdout = None
    _, errors = command.communicate(LINES, timeout=PATIENCE_S)
    assert command.returncode == 1
    return errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "--topic=many", "--json"),
        ("consume", "--topic=many", "--json"),
        ("consume", "--topic=many", "--group=another"),
        ("status",),
        ("status", "--json"),
        ("topic", "create", "one"),
        ("topic", "list"),
        ("topic", "describe", "many"),
        ("group", "list", "--json"),
        ("up", "--port=0", "--brokers=0"),
        ("demo", "--quick"),
    ],
    ids=" ".join,
)
def test_a_closed_reader_hears_nothing_more(namesrv, arguments) -> None:
    assert complaints(namesrv, *arguments) == b""
