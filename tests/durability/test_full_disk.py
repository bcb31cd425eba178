"""A disk without room: sends are refused with a reason, until there is room; reads work.

Two ways to fill it: a limit on the size of files, which needs no privileges, and a real
small file system, where the kernel lets a process mount one.
"""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketmq_emulator.admin.calls import AdminRefused
from rocketmq_emulator.cluster.control.client import ControlClient
from rocketmq_emulator.disk.line_file import LineFile
from rocketmq_emulator.facts import StoreRefused
from rocketmq_emulator.protocol.codes import ResponseCode
from tests.durability.killed_cluster import (
    SMALL,
    LoneBroker,
    facts_of,
    questions_to,
    saved_offsets,
    store_of,
)
from tests.support.cli.command_line import PATIENCE_S, RMQEMU, ready_line, rmqemu, started

UNLIMITED = resource.RLIM_INFINITY
LARGE = bytes(60_000)
JOURNAL_HAS_GAPS = 1  # the exit code of a broker whose own journal has none of its last facts
MOUNT_AND_GO_ON = """
mount -t tmpfs -o size=1400k tmpfs "$0" && head -c 500000 /dev/zero > "$0/ballast" && exec "$@"
"""


class LimitedFiles:
    """Limits the size of files: no new file may become as large as a segment."""

    def __init__(self, folder, **settings) -> None:
        self.broker = LoneBroker(folder, **SMALL, **settings)

    def fill(self, bytes_max=SMALL["segment_bytes"] - 1) -> None:
        resource.prlimit(self.broker.pid, resource.RLIMIT_FSIZE, (bytes_max, UNLIMITED))

    def free(self) -> None:
        resource.prlimit(self.broker.pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))


class SmallFileSystem:
    """A file system for a few segments and a file, whose removal makes room."""

    def __init__(self, folder) -> None:
        self._store = store_of(folder)
        self._store.mkdir(parents=True)
        before = ("unshare", "-rm", "sh", "-c", MOUNT_AND_GO_ON, str(self._store))
        self.broker = LoneBroker(folder, before, **SMALL)

    def fill(self) -> None:
        """Do nothing: the messages of the test fill it."""

    def free(self) -> None:
        Path(f"/proc/{self.broker.pid}/root{self._store}/ballast").unlink()


def _may_mount() -> bool:
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


DISKS = [LimitedFiles, SmallFileSystem] if _may_mount() else [LimitedFiles]


@contextmanager
def on(kind, folder, *, exit_code=0, **settings):
    disk = kind(folder, **settings)
    try:
        yield disk
    finally:
        assert disk.broker.end() == exit_code


async def send_until_refused(ask):
    """Send large messages to the only queue; return how many were stored, and the refusal."""
    stored = 0
    while (reply := await ask.send("orders", 0, LARGE)).code == ResponseCode.SUCCESS:
        stored += 1
        assert stored < 100
    return stored, reply


@pytest.mark.parametrize("kind", DISKS)
async def test_a_full_disk_refuses_sends_notes_it_once_and_serves_what_is_there(
    tmp_path, kind
) -> None:
    with on(kind, tmp_path) as disk:
        async with questions_to(disk.broker) as ask:
            await ask.stored("orders", 0, b"first")
            disk.fill()
            stored, reply = await send_until_refused(ask)
            assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "full" in reply.remark
            for _ in range(5):
                reply = await ask.send("orders", 0, LARGE)
                assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert len(facts_of(tmp_path, StoreRefused)) == 1
            bodies = [message.body for message in await ask.messages("orders", 0)]
            assert bodies == [b"first", *[LARGE] * stored]
            disk.free()
            assert await ask.stored("orders", 0, LARGE) == stored + 1
            assert len(await ask.messages("orders", 0)) == stored + 2


async def test_no_topic_is_acknowledged_before_it_is_on_disk(tmp_path) -> None:
    """There is room in the segment, but none for the table of topics or the journal."""
    with on(LimitedFiles, tmp_path, exit_code=JOURNAL_HAS_GAPS) as disk:
        async with questions_to(disk.broker) as ask:
            await ask.stored("orders", 0, b"first")
            disk.fill(bytes_max=0)
            for _ in range(2):
                reply = await ask.send("fresh", 0, b"hello")
                assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            with pytest.raises(AdminRefused, match="disk is full"):
                await ask.create_topic("fresh")
            assert "fresh" not in await ask.topics()
            assert await ask.stored("orders", 0, b"second") == 1
            disk.free()
            assert await ask.stored("fresh", 0, b"hello") == 0
            assert "fresh" in await ask.topics()


async def test_a_durable_offset_is_answered_for_only_when_it_is_on_disk(tmp_path) -> None:
    settings = {"durable_offsets": True, "exit_code": JOURNAL_HAS_GAPS}
    with on(LimitedFiles, tmp_path, **settings) as disk:
        async with questions_to(disk.broker) as ask:
            await ask.create_topic("orders", 1)
            await ask.commit("readers", "orders", 0, 1)
            disk.fill(bytes_max=0)
            for _ in range(3):
                with pytest.raises(AdminRefused, match="disk is full"):
                    await ask.commit("readers", "orders", 0, 2)
            assert saved_offsets(tmp_path) == {"orders@readers": {0: 1}}
            disk.free()
            await ask.commit("readers", "orders", 0, 2)
            assert saved_offsets(tmp_path) == {"orders@readers": {0: 2}}


def test_lines_that_find_no_room_are_left_out_whole(tmp_path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = LineFile(path)
    assert lines.append(b"first\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        assert not lines.append(b"second, of which a part would fit\n")
        assert not lines.write_reserved(b"there is no room for the reserved line either\n")
        assert not lines.append(b"3rd\n")  # it would fit, and hide that the disk is full
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    written = [lines.append(b"later\n") for _ in range(32)]
    assert written == sorted(written)  # none before there is room, all after
    assert 0 < written.count(True) < 32
    lines.close()
    assert path.read_bytes() == b"first\n" + b"later\n" * written.count(True)


# A full disk of a journal -------------------------------------------------------------

MOUNT = 'mount -t tmpfs -o size=700k tmpfs "$0" && exec "$@"'
ON_SMALL_DISK = ("unshare", "-rm", "sh", "-c", MOUNT)


@pytest.mark.skipif(not _may_mount(), reason="this system lets no process mount a file system")
def test_a_journal_on_a_full_disk_ends_with_a_fact_and_up_says_it_at_once_and_fails(
    tmp_path,
) -> None:
    journals = tmp_path / "disk"
    journals.mkdir()
    command = (*ON_SMALL_DISK, str(journals), *RMQEMU)
    up_options = ("--brokers=1", "--port=0", f"--journal={journals}")
    with started("up", *up_options, command=command) as up:
        line = ready_line(up)
        done = rmqemu("produce", "--topic=orders", "-n", line["namesrv"], stdin=b"x\n" * 3_500)
        assert done.returncode == 0, done.stderr  # the broker works on
        complaint = up.stderr.readline().decode()
        status = rmqemu("status", "-n", line["namesrv"]).stdout.decode()
        broker = ControlClient(line["control"].removeprefix("http://")).nodes()[1]
        inside = Path(f"/proc/{line['pids'][1]}/root{journals}")
        copied = tmp_path / "copied"
        shutil.copytree(inside, copied)
        up.send_signal(signal.SIGTERM)
        last_words = up.communicate(timeout=PATIENCE_S)[1].decode()
    assert "[error    ] broker-a   FactsLeftOut" in complaint
    assert "facts are missing from now on; make room on the disk of the journal" in complaint
    assert broker.facts_left_out >= 1
    assert "its disk was full, facts are missing" in status
    assert up.returncode == 1
    assert f"the disk of {journals} was full: facts are missing there: " in last_words
    ending = (copied / "broker-a.jsonl").read_bytes().splitlines()[-1]
    missing = json.loads(ending)["fact"]["missing_count"]
    assert json.loads(ending)["fact"]["kind"] == "FactsLeftOut"
    assert missing > 1
    ends_early = f"the journal of broker-a ends early: {missing:,} facts are missing since"
    for command in (("judge",), ("explain",), ("report", "-o", str(tmp_path / "page.html"))):
        done = rmqemu(command[0], str(copied), *command[1:])
        assert ends_early in " ".join((done.stdout + done.stderr).decode().split()), command
        assert b"no violation, but it has not passed" in done.stdout or command[0] != "report"
