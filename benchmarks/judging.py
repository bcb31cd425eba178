"""How many facts a second are read and judged: a journal of a virtual minute, many times over.

python -m benchmarks.judging [FACTS]   # prints facts/s of reading, of judging, and of both
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from emulator.checks.judging import judge
from emulator.checks.reading import read_journals
from emulator.facts import (
    MessageConsumed,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
    SendAttempted,
)
from emulator.journal import Entry, encode_entry
from scenarios.plan import ConsumersPlan, LoadPlan, Mark, Plan, Step, TopicPlan
from scenarios.running.virtual_run import finished_run

FACTS = 1_000_000
US_A_MINUTE = 60_000_000
WITH_OFFSETS = (
    MessageConsumed,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
)
WITH_KEYS = (MessageConsumed, MessageSent, MessageStored, SendAttempted)


def main(count: int) -> dict[str, float]:
    entries = list(many(a_minute(), count))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        path.write_bytes(b"".join(map(encode_entry, entries)))
        read_s = timed(lambda: sum(1 for _ in read_journals([path])))
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
    """A virtual minute of two brokers and three consumers, 100 messages a second."""
    plan = Plan(
        name="a minute",
        topics={"orders": TopicPlan()},
        consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}, members=3),),
        load=(LoadPlan(topic="orders", rate=100),),
        timeline=(Step(does=Mark(text="the end"), at_ms=60_000),),
        lasts_ms=60_000,
    )
    return finished_run(plan, seed=1)[1]


def many(minute: list[Entry], count: int) -> Iterator[Entry]:
    """The minute again and again, later and with later offsets, as one long journal."""
    ends = {
        entry.fact.queue: entry.fact.offset + 1
        for entry in minute
        if isinstance(entry.fact, MessageStored)
    }
    seqs: dict[str, int] = {}
    for number in range(count):
        lap, index = divmod(number, len(minute))
        entry = minute[index]
        seqs[entry.node] = seqs.get(entry.node, 0) + 1
        fact = entry.fact
        changed = {}
        if isinstance(fact, WITH_OFFSETS):
            shift = lap * ends.get(fact.queue, 0)
            changed = {"offset": fact.offset + shift}
            if isinstance(fact, PullAnswered):
                changed["next_offset"] = fact.next_offset + shift
        if isinstance(fact, WITH_KEYS):
            changed["uniq_key"] = f"{fact.uniq_key}-{lap}"
        yield Entry(
            seqs[entry.node],
            entry.at_ms + lap * 60_000,
            entry.mono_us + lap * US_A_MINUTE,
            entry.node,
            msgspec.structs.replace(fact, **changed) if changed else fact,
        )


def timed(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if sys.argv[1:] else FACTS), indent=2))
