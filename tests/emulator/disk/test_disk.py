"""Disks: the promises of every disk, and of directories only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketmq_emulator.disk.files import FileDisk, StoreInUse, StoreUnwritable
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import ROOT_DOCUMENTS, Disk, DiskFull
from tests.support.paths import ROOT

SIZE = 64 * 1024


@pytest.fixture(params=["memory", "files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return MemoryDisk() if request.param == "memory" else FileDisk(tmp_path / "store")


def test_a_new_segment_is_zero_and_writable(disk: Disk) -> None:
    segment = disk.open_segment(0, SIZE)
    assert bytes(segment.view) == bytes(SIZE)
    segment.view[:5] = b"hello"
    assert bytes(disk.open_segment(0, SIZE).view[:5]) == b"hello"


@pytest.mark.parametrize("count", [5, 10_000])
def test_bytes_that_are_written_are_in_the_view_at_once(disk: Disk, count: int) -> None:
    segment, data = disk.open_segment(0, SIZE), os.urandom(count)
    segment.write(100, data[:1])
    segment.write(101, memoryview(data)[1:])
    assert bytes(segment.view[100 : 101 + count]) == data + b"\0"


def test_bytes_are_written_to_the_file_that_was_made_anew(disk: Disk) -> None:
    for base in (0, SIZE, 0):
        disk.open_segment(base, SIZE).write(0, b"old" * 10_000)
    disk.remove_segment(0)
    again = disk.open_segment(0, SIZE)
    again.write(0, b"new" * 10_000)
    assert bytes(again.view[:30_000]) == b"new" * 10_000


def test_only_one_file_of_a_log_is_open_for_writing(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    disk = FileDisk(tmp_path / "store")
    segments = [disk.open_segment(base, SIZE) for base in range(0, 8 * SIZE, SIZE)]
    before = open_files()
    for segment in segments:
        segment.write(0, bytes(10_000))
    assert open_files() == before + 1
    disk.close()
    assert open_files() < before


def test_segments_are_listed_by_their_base(disk: Disk) -> None:
    for base in (SIZE, 0, 10 * SIZE):
        disk.open_segment(base, SIZE)
    disk.remove_segment(SIZE)
    assert disk.segments() == [0, 10 * SIZE]


def test_a_segment_keeps_the_size_it_was_made_with(disk: Disk) -> None:
    disk.open_segment(0, SIZE).close()
    assert disk.open_segment(0, 4 * SIZE).size == SIZE


def test_a_closed_segment_can_be_opened_again(disk: Disk) -> None:
    segment = disk.open_segment(0, SIZE)
    segment.view[:5] = b"hello"
    piece = segment.view[:5]
    segment.close()
    assert bytes(disk.open_segment(0, SIZE).view[:5]) == bytes(piece) == b"hello"


def test_a_slice_outlives_its_removed_segment(disk: Disk) -> None:
    segment = disk.open_segment(0, SIZE)
    segment.view[:5] = b"hello"
    piece = segment.view[:5]
    disk.remove_segment(0)
    assert bytes(piece) == b"hello"


def test_a_document_is_replaced_whole(disk: Disk) -> None:
    assert disk.read("topics.json") is None
    disk.replace("topics.json", b"one")
    disk.replace("topics.json", b"the other")
    assert disk.read("topics.json") == b"the other"


def test_a_document_grows_at_its_end_from_nothing_or_from_what_is_there(disk: Disk) -> None:
    disk.append("topics.json.changes", b"one\n")
    disk.append("topics.json.changes", b"two\n", flushed=True)
    assert disk.read("topics.json.changes") == b"one\ntwo\n"
    disk.replace("topics.json.changes", b"")
    disk.append("topics.json.changes", b"three\n")
    assert disk.read("topics.json.changes") == b"three\n"


def test_a_memory_disk_is_full_at_its_limit_and_not_after_a_removal() -> None:
    disk = MemoryDisk(bytes_max=2 * SIZE)
    disk.open_segment(0, SIZE)
    disk.open_segment(SIZE, SIZE)
    with pytest.raises(DiskFull):
        disk.replace("topics.json", b"x")
    disk.remove_segment(0)
    disk.replace("topics.json", b"x")
    assert disk.segments() == [SIZE]


def test_files_have_the_names_a_real_broker_gives_them(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.open_segment(4096, 4096)
    disk.replace("topics.json", b"{}")
    assert (tmp_path / "commitlog" / "00000000000000004096").stat().st_size == 4096
    assert (tmp_path / "config" / "topics.json").read_bytes() == b"{}"


@pytest.mark.parametrize("name", sorted(ROOT_DOCUMENTS))
def test_a_few_documents_are_beside_the_folders(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.tmp").write_bytes(b"half")
    (tmp_path / "notes.tmp").write_bytes(b"a user's")
    disk = FileDisk(tmp_path)
    assert not (tmp_path / f"{name}.tmp").exists()
    assert (tmp_path / "notes.tmp").exists()
    disk.replace(name, b"text", flushed=True)
    assert (tmp_path / name).read_bytes() == disk.read(name) == b"text"


def test_r63_two_brokers_never_share_a_directory(tmp_path: Path) -> None:
    first = FileDisk(tmp_path)
    with pytest.raises(StoreInUse, match=f"{tmp_path} is in use by process {os.getpid()}"):
        FileDisk(tmp_path)
    first.close()
    FileDisk(tmp_path).close()


def test_a_directory_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnwritable, match=r"cannot write to the store directory .*file"):
        FileDisk(tmp_path / "file" / "store")


def test_what_a_dead_process_left_half_written_is_swept(tmp_path: Path) -> None:
    FileDisk(tmp_path).close()
    (tmp_path / "commitlog" / f"{0:020d}.tmp").write_bytes(b"half")
    disk = FileDisk(tmp_path)
    assert disk.segments() == []
    assert list((tmp_path / "commitlog").iterdir()) == []


FULL = """
import resource, sys
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.disk.port import DiskFull
disk = FileDisk(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
for make in (lambda: disk.open_segment(0, 131072), lambda: disk.replace("t", bytes(131072))):
    try:
        make()
    except DiskFull as error:
        print(error)
print(disk.segments(), disk.read("t"))
"""


def test_a_file_that_finds_no_room_is_not_made_at_all(tmp_path: Path) -> None:
    printed = run(FULL, tmp_path).stdout.splitlines()
    assert printed[0] == f"no room for {tmp_path}/commitlog/{0:020d}"
    assert printed[1] == f"no room for {tmp_path}/config/t"
    assert printed[2] == "[] None"
    assert list(tmp_path.glob("*/*.tmp")) == []


KILLED = """
import os, signal, sys
from rocketmq_emulator.disk.files import FileDisk
disk = FileDisk(sys.argv[1])
disk.open_segment(0, 65536).view[:5] = b"hello"
disk.replace("topics.json", b"{}")
os.kill(os.getpid(), signal.SIGKILL)
"""


FULL_AT_ITS_END = """
import resource, sys
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.disk.port import DiskFull
disk = FileDisk(sys.argv[1])
disk.append("t", b"first\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 65536))
try:
    disk.append("t", b"second, of which a part would fit\\n")
except DiskFull as error:
    print(error)
disk.append("t", b"3rd\\n")
print(disk.read("t"))
"""


def test_what_finds_no_room_at_the_end_of_a_document_is_not_there_at_all(tmp_path: Path) -> None:
    printed = run(FULL_AT_ITS_END, tmp_path).stdout.splitlines()
    assert printed == [f"no room for {tmp_path}/config/t", repr(b"first\n3rd\n")]


def test_what_was_written_survives_a_kill_and_frees_the_directory(tmp_path: Path) -> None:
    assert run(KILLED, tmp_path).returncode == -signal.SIGKILL
    disk = FileDisk(tmp_path)
    assert bytes(disk.open_segment(0, 65536).view[:6]) == b"hello\0"
    assert disk.read("topics.json") == b"{}"


def run(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_flush_says_how_far_everything_is_safe(disk: Disk) -> None:
    done: list[int | OSError] = []
    disk.open_segment(0, SIZE).view[:5] = b"hello"
    disk.flush(5, done.append)
    disk.flush(3, done.append)
    assert done[0] == 5
    assert len(done) == 2
    disk.close()


def test_a_document_can_be_made_durable_at_once(disk: Disk) -> None:
    disk.replace("topics.json", b"one", flushed=True)
    assert disk.read("topics.json") == b"one"
