"""Nodes that are forked by a process that has loaded every role."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.processes import spawning
from rocketmq_emulator.processes.fork_server import ForkRequest
from rocketmq_emulator.processes.spawning import CAN_FORK, ForkedNode

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="nodes are forked on Linux only")


def shared_bytes(pid: int) -> int:
    """Memory that the process shares with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Shared_Dirty"))


def test_nodes_share_what_was_loaded_before_they_were_forked() -> None:
    with ProcessCluster(ClusterSpec(brokers=2)) as running:
        assert all(shared_bytes(pid) > 4 * 1024 * 1024 for pid in running.pids.values())


def test_a_node_is_in_a_group_of_its_own_and_holds_no_file_of_another() -> None:
    with ProcessCluster(ClusterSpec(brokers=2)) as running:
        pids = running.pids
        assert all(os.getpgid(pid) == pid for pid in pids.values())
        files = [set(map(os.readlink, Path(f"/proc/{pid}/fd").iterdir())) for pid in pids.values()]
        one, *others = ({name for name in of if name.startswith("pipe:")} for of in files)
        assert not any(one & other for other in others)


def test_the_end_of_a_forked_node_is_known_with_its_code() -> None:
    unwanted, killed = spawning.spawn("nameserver"), spawning.spawn("nameserver")
    for node, errors in (unwanted, killed):
        assert isinstance(node, ForkedNode)
        with node.stdout, errors:
            assert node.poll() is None
            if node is killed.popen:
                node.kill()
            node.stdin.close()  # instead of a config: the node ends
            assert node.wait(20) == (-signal.SIGKILL if node is killed.popen else 0)


def test_without_the_process_that_forks_a_node_loads_its_code_itself() -> None:
    with ProcessCluster(ClusterSpec(brokers=1)) as running:
        forker = spawning._forkers[0]
        forker._process.kill()
        forker._process.wait()
        running.restart("broker-a")
        running.check_alive()
        assert not isinstance(running._nodes["broker-a"].popen, ForkedNode)
        running.restart("broker-a")
        assert isinstance(running._nodes["broker-a"].popen, ForkedNode), "a new process forks"


def test_the_process_that_forks_ends_without_a_word_when_its_user_dies_meanwhile() -> None:
    ours, its = socket.socketpair()
    with ours, open(os.devnull, "r+b") as nowhere, tempfile.TemporaryFile() as errors:  # noqa: PTH123
        request = msgspec.json.encode(ForkRequest(["nameserver", "-", "--with-parent"], "/"))
        socket.send_fds(ours, [request], [nowhere.fileno()] * 4)
        ours.close()  # before it answers
        command = [
            *(sys.executable, "-m", "rocketmq_emulator.processes.fork_server"),
            str(its.fileno()),
        ]
        done = subprocess.run(command, pass_fds=[its.fileno()], stderr=errors, check=False)
        its.close()
        assert done.returncode == 0
        errors.seek(0)
        assert errors.read() == b""


def test_the_process_that_forks_ends_without_a_word_when_its_answer_is_never_read() -> None:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(os.devnull, "r+b") as nowhere, tempfile.TemporaryFile() as errors:  # noqa: PTH123
        command = [
            *(sys.executable, "-m", "rocketmq_emulator.processes.fork_server"),
            str(its.fileno()),
        ]
        forks = subprocess.Popen(command, pass_fds=[its.fileno()], stderr=errors)
        its.close()
        request = msgspec.json.encode(ForkRequest(["nameserver", "-", "--with-parent"], "/"))
        socket.send_fds(ours, [request], [nowhere.fileno()] * 4)
        assert select.select([ours], [], [], 20)[0], "the fork server did not answer"
        ours.close()
        assert forks.wait(20) == 0
        errors.seek(0)
        assert errors.read() == b""
