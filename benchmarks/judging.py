"""Facts read and judged per second: the journal of a virtual minute, repeated many times.

python -m benchmarks.judging [FACTS]   # prints facts/s of reading, of judging, and of both
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path

import msgspec

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.facts import (
    ConsumerStarted,
    Fact,
    LogFlushed,
    MemberJoined,
    MessageConsumed,
    MessageGivenToListener,
    MessageSent,
    MessageStored,
    NodeStarted,
    OffsetCommitted,
    PullAnswered,
    PullFailed,
    PullHeld,
    QueuesClaimed,
    QueuesReleased,
    SendAttempted,
    StoreOpened,
)
from rocketmq_emulator.facts.journal import Entry, encode_entry
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    LoadPlan,
    Mark,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.running.virtual_run import finished_run

FACTS = 1_000_000
LAP_MS = 61_000  # the minute, and the time until the next one begins
WITH_OFFSETS = (
    MessageConsumed,
    MessageGivenToListener,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
)
ONCE = (
    ConsumerStarted,
    MemberJoined,
    NodeStarted,
    PullFailed,
    QueuesClaimed,
    QueuesReleased,
    StoreOpened,
)
WITH_KEYS = (MessageConsumed, MessageGivenToListener, MessageSent, MessageStored, SendAttempted)


def main(count: int) -> dict[str, float]:
    entries = list(many(a_minute(), count))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        path.write_bytes(b"".join(map(encode_entry, entries)))
        read_s = timed(lambda: sum(1 for _ in read_journals([path])))
        if violations := judge(entries).violations:  # violations would take additional time
            raise RuntimeError(f"the journal breaks a rule: {violations[0].what}")
        judged_s = timed(lambda: judge(entries))
        both_s = timed(lambda: judge(read_journals([path])))
        megabytes = path.stat().st_size / 1e6
    return {
        "facts": count,
        "megabytes": round(megabytes),
        "read_per_s": round(count / read_s),
        "judged_per_s": round(count / judged_s),
        "read_and_judged_per_s": round(count / both_s),
    }


def a_minute() -> list[Entry]:
    """The journal of a virtual minute: two brokers, three consumers, 100 messages per second.

    The load ends before the minute does, so that the last message is consumed and committed.
    """
    plan = Plan(
        name="a minute",
        topics={"orders": TopicPlan()},
        consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}, members=3),),
        load=(LoadPlan(topic="orders", rate=100, until_ms=58_000),),
        timeline=(Step(does=Mark(text="the end"), at_ms=60_000),),
        lasts_ms=60_000,
    )
    return finished_run(plan, seed=1)[1]


def many(minute: list[Entry], count: int) -> Iterator[Entry]:
    """One long run of *count* facts: the minute repeated, with later times and offsets.

    Facts that begin or end a run, a node or a member are not repeated.
    """
    first, last = minute[0], minute[-1]
    again = [entry for entry in minute[1:-1] if not isinstance(entry.fact, ONCE)]
    shifts = _Shifts(minute)
    seqs: dict[str, int] = {}
    entries = chain([(0, each) for each in (first, *minute[1:-1])], _laps(again))
    now = first
    for lap, entry in islice(entries, count - 1):  # the last fact of the minute follows
        seqs[entry.node] = seqs.get(entry.node, 0) + 1
        now = _at(entry, seqs[entry.node], lap, shifts.of(entry, lap))
        yield now
    yield Entry(seqs.get(last.node, 0) + 1, now.at_ms, now.mono_us, last.node, last.fact)


def _laps(again: list[Entry]) -> Iterator[tuple[int, Entry]]:
    return ((lap, entry) for lap in itertools.count(1) for entry in again)


def _at(entry: Entry, seq: int, lap: int, fact: Fact) -> Entry:
    later_ms = lap * LAP_MS
    return Entry(seq, entry.at_ms + later_ms, entry.mono_us + later_ms * 1_000, entry.node, fact)


class _Shifts:
    """The amounts by which offsets and positions grow in each minute."""

    def __init__(self, minute: list[Entry]) -> None:
        stored = [(entry.node, each) for entry in minute if (each := _stored(entry)) is not None]
        self._offsets = {each.queue: each.offset + 1 for _, each in stored}
        self._bytes = {node: each.position + each.size_bytes for node, each in stored}

    def of(self, entry: Entry, lap: int) -> Fact:
        """The fact of *entry* in minute *lap*."""
        fact = entry.fact
        if not lap:
            return fact
        changed: dict[str, object] = {}
        if isinstance(fact, WITH_OFFSETS):
            shift = lap * self._offsets.get(fact.queue, 0)
            changed = {"offset": fact.offset + shift}
            if isinstance(fact, PullAnswered):
                changed["next_offset"] = fact.next_offset + shift
        if isinstance(fact, WITH_KEYS):
            changed["uniq_key"] = f"{fact.uniq_key}-{lap}"
        if isinstance(fact, MessageStored | LogFlushed):
            changed["position"] = fact.position + lap * self._bytes[entry.node]
        return msgspec.structs.replace(fact, **changed) if changed else fact


def _stored(entry: Entry) -> MessageStored | None:
    return entry.fact if isinstance(entry.fact, MessageStored) else None


def timed(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if sys.argv[1:] else FACTS), indent=2))
