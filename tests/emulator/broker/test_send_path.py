"""The way of a message that wakes a held pull, file by file: it can be read in one sitting.

A reader who follows a send with a debugger changes files as often as calls do.  Run this
file with ``-s`` to see the list that ARCHITECTURE.md describes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from bench import EPOCH_MS, Bench

from rocketmq_emulator.net.connection import Connection
from rocketmq_emulator.protocol.command import RemotingCommand, encode_command, ext_of
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2

ROOT = Path(__file__).parents[3]
SWITCHES_MAX = 40
PROPERTIES = "UNIQ_KEY\x017F00000100002A9F0000000000000001\x02WAIT\x01true\x02TAGS\x01A"


@contextmanager
def calls_counted(path: list[CodeType]) -> Iterator[None]:
    """Collect every Python function of ours that is called inside, in order."""
    ours = str(ROOT / "rocketmq_emulator")

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ours):
            path.append(frame.f_code)

    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


def files_of(path: list[CodeType]) -> list[tuple[str, list[str]]]:
    """Each stay in one file, and what was called there."""
    stays: list[tuple[str, list[str]]] = []
    for code in path:
        file = str(Path(code.co_filename).resolve().relative_to(ROOT))
        if not stays or stays[-1][0] != file:
            stays.append((file, []))
        stays[-1][1].append(code.co_name)
    return stays


def a_send(opaque: int) -> bytes:
    """The frame of a SEND_MESSAGE_V2 as a Java producer sends it."""
    header = SendMessageRequestV2(
        producer_group="pg",
        topic="Orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=EPOCH_MS,
        flag=0,
        properties=PROPERTIES,
    )
    command = RemotingCommand(
        code=310, flag=0, version=409, opaque=opaque, ext=ext_of(header), body=b"hello"
    )
    return encode_command(command)


async def test_a_send_that_wakes_a_held_pull_switches_files_at_most_40_times() -> None:
    bench = Bench(keeps_facts=False)
    producer, consumer = bench.client(), bench.client()
    consumer.heartbeat("c", "g", {"Orders": "*"})
    for offset in range(3):  # what is looked up once is known by the third
        producer.endpoint.feed(a_send(offset))
        assert consumer.pull("Orders", offset + 1) is None
    frame, path = a_send(9), list[CodeType]()
    with calls_counted(path):
        producer.endpoint.feed(frame)
    stays = files_of(path[: last_write_of(path) + 1])
    for number, (file, names) in enumerate(stays):
        print(f"{number:3} {file}: {' '.join(names)}")  # noqa: T201  # the list, with -s
    assert len(stays) - 1 <= SWITCHES_MAX


def last_write_of(path: list[CodeType]) -> int:
    """Where the pull's reply is written: the second write, the producer's is the first."""
    writes = [n for n, code in enumerate(path) if code is Connection.write.__code__]
    assert len(writes) == 2
    return writes[1]
