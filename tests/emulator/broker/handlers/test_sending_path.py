"""The files that a send visits when it wakes a held pull, in order; they are few.

A reader who follows a send with a debugger changes files as often as the calls do.  Run this
file with ``-s`` to see the functions, too.
"""

from __future__ import annotations

from itertools import groupby
from types import CodeType

from rocketmq_emulator.net.connection import Connection
from rocketmq_emulator.protocol.command import RemotingCommand, encode_command, ext_of
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from tests.support.broker.bench import EPOCH_MS, Bench
from tests.support.visited_files import calls_kept, difference, files_under, without_repeats

SWITCHES_MAX = 40
PROPERTIES = "UNIQ_KEY\x017F00000100002A9F0000000000000001\x02WAIT\x01true\x02TAGS\x01A"


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


async def test_a_send_that_wakes_a_held_pull_visits_the_files_of_the_page() -> None:
    bench = Bench(keeps_facts=False)
    producer, consumer = bench.client(), bench.client()
    consumer.heartbeat("c", "g", {"Orders": "*"})
    for offset in range(3):  # the last of them finds all lookups cached
        producer.endpoint.feed(a_send(offset))
        assert consumer.pull("Orders", offset + 1) is None
    frame = a_send(9)
    with calls_kept() as calls:
        producer.endpoint.feed(frame)
    calls = calls[: last_write_of(calls) + 1]
    for file, inside in groupby(calls, key=lambda call: call[0]):
        print(f"{file}: {' '.join(code.co_name for _, code in inside)}")  # noqa: T201  # with -s
    visited = without_repeats(file for file, _ in calls)
    assert difference(visited, without_repeats(files_under("A send that wakes a pull"))) == ""
    assert len(visited) - 1 <= SWITCHES_MAX


def last_write_of(calls: list[tuple[str, CodeType]]) -> int:
    """The index of the write of the pull's reply, the second; the producer's is the first."""
    write = Connection.write.__code__
    writes = [number for number, (_, code) in enumerate(calls) if code is write]
    assert len(writes) == 2
    return writes[1]
