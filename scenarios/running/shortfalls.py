"""Why an expectation about what is left was not met: whose backlog, which queue has no owner.

Such a number (``backlog``, ``stuck``, ``unrest``, ``unowned_s``) has no fact at which it turned:
it says that something did not happen.  So it is told what is left, by group and queue, from which
offset, who holds the queue and what was done there last.  Pure: entries in, lines out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from emulator.checks.checker import place_of
from emulator.checks.delivery import NothingIsLost
from emulator.checks.judging import Judging
from emulator.checks.ownership import OneOwner
from emulator.facts import (
    DelayedDelivered,
    MessageStored,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    RunEnded,
)
from emulator.journal import Entry
from protocol.names import SCHEDULE_TOPIC, retry_topic
from scenarios.plan import Expectation
from scenarios.running.verdicts import expected_text
from scenarios.telling.names import NamesOfRun
from scenarios.telling.queue_stories import QueueStory, lines_of, stories_of, whose
from scenarios.telling.runs import runs_of, told
from scenarios.telling.sentences import many

QUEUES_TOLD_MAX = 2  # whose last acts are told, of each group
QUEUES_NAMED_MAX = 4  # more that have messages left
GROUPS_MAX = 3
GAPS_MAX = 2  # queues without an owner
LATELY_US = 60_000_000  # before the end: what had not come to rest
LATELY_MAX = 6  # lines of that


class Shortfall(msgspec.Struct, frozen=True):
    """An expectation that was not met, and what it lacked, a sentence a line."""

    expected: str
    why: tuple[str, ...]


class Left(msgspec.Struct, frozen=True):
    """Messages of a queue that a group has not finished; *node*: of a broadcasting member."""

    group: str
    node: str
    queue: Queue
    count: int
    first: int  # their lowest offset
    committed: int | None
    is_read: bool = True  # somebody pulled from the queue


def shortfall_of(entries: Sequence[Entry], expectation: Expectation) -> Shortfall | None:
    """What *expectation* lacked; None if its metric is not about what is left."""
    explain = EXPLAINED.get(expectation.metric)
    if explain is None or not entries:
        return None
    lines = tuple(explain(entries, expectation.scope))
    return Shortfall(expected_text(expectation), lines) if lines else None


def left_at_end(entries: Sequence[Entry]) -> list[Left]:
    """What each group has not finished, the most first."""
    judging = Judging((NothingIsLost,))
    judging.take(entries)
    scene, progress = judging.scene, judging.progress
    found = []
    for reader, reading in progress.readings():
        group, _, node = reader.partition("@")
        if group not in scene.seats:
            continue
        start = max(reading.start, reading.records.first or 0, reading.reused_to)
        left = list(progress.messages.chains.unsettled(reading, start, reading.records.behind))
        if left:
            queue = reading.queue
            found.append(Left(group, node, queue, len(left), left[0], reading.committed))
    for group, seats in scene.seats.items():
        topics = {topic for seat in seats for topic in seat.topics} - {""}
        read = {r.queue for name, r in progress.readings() if name.partition("@")[0] == group}
        for queue, records in progress.messages.queues.items():
            is_ours = queue.topic in topics or queue.topic == retry_topic(group)
            if is_ours and queue not in read and records.stored_count:
                found.append(
                    Left(group, "", queue, records.stored_count, records.first or 0, None, False)
                )
    return sorted(found, key=lambda left: -left.count)


# By metric ----------------------------------------------------------------------------------


def _backlog(entries: Sequence[Entry], scope: str) -> Iterator[str]:
    """What is left, by group, and whose it is."""
    left = [each for each in left_at_end(entries) if scope in ("", each.group)]
    groups = list(dict.fromkeys(each.group for each in left))
    names = NamesOfRun(entries)
    for group in groups[:GROUPS_MAX]:
        yield from _backlog_of(entries, names, group, [e for e in left if e.group == group])
    if (more := len(groups) - GROUPS_MAX) > 0:
        yield f"and {more} more groups have messages left"


def _backlog_of(
    entries: Sequence[Entry], names: NamesOfRun, group: str, left: list[Left]
) -> Iterator[str]:
    count, until_us = sum(each.count for each in left), entries[-1].mono_us
    yield f"{group} has not finished {many(count, 'message')}, in {many(len(left), 'queue')}"
    stories = stories_of(entries, names, [(group, each.queue) for each in left], until_us)
    for each in left[:QUEUES_TOLD_MAX]:
        story = stories[group, each.queue]
        story = story.of_node(each.node) if each.node else story
        yield _left(each)
        since_us = max((e.mono_us for e in _progress(story)), default=0)
        yield from (f"  {line}" for line in lines_of(story, names, since_us))
    for each in left[QUEUES_TOLD_MAX : QUEUES_TOLD_MAX + QUEUES_NAMED_MAX]:
        yield f"{_left(each)}; {whose(stories[group, each.queue])}"
    if (more := len(left) - QUEUES_TOLD_MAX - QUEUES_NAMED_MAX) > 0:
        yield f"and {more} more queues of {group}"


def _progress(story: QueueStory) -> list[Entry]:
    """The last messages that members took: refusals before them did no harm."""
    return [
        entry for acts in story.acts.values() for name, entry in acts.items() if name != "pull"
    ]


def _left(left: Left) -> str:
    who = f"{left.group} on {left.node}" if left.node else left.group
    count = many(left.count, "message")
    text = f"{place_of(left.queue)}: {count} from {left.first} on not finished by {who}"
    if not left.is_read:
        return f"{text}, which never pulled there"
    committed = "nothing" if left.committed is None else left.committed
    return text if left.node else f"{text}, which has committed {committed}"


def _unrest(entries: Sequence[Entry], *_: object) -> Iterator[str]:
    """What had not become quiet: what is left, what waits for its time, who moved last."""
    ended = entries[-1].fact
    if isinstance(ended, RunEnded) and ended.detail:
        yield ended.detail
    left = list(_backlog(entries, ""))
    yield from left
    waits = list(_waits(entries))
    yield from waits
    lately = _lately(entries)
    if lately and not left:
        yield f"queues that changed hands in the last {LATELY_US // 1_000_000} s:"
        yield from lately
    if not left and not waits and not lately:
        yield from _lags(entries)


def _waits(entries: Sequence[Entry]) -> Iterator[str]:
    """Delay levels of brokers to which more came than was delivered."""
    came: dict[tuple[str, int], list[Entry]] = {}
    went: dict[tuple[str, int], int] = {}
    for entry in entries:
        fact = entry.fact
        if isinstance(fact, MessageStored) and fact.queue.topic == SCHEDULE_TOPIC:
            came.setdefault((entry.node, fact.queue.queue_id + 1), []).append(entry)
        elif isinstance(fact, DelayedDelivered):
            at = (entry.node, fact.delay_level)
            went[at] = went.get(at, 0) + 1
    for (broker, level), stored in came.items():
        if (count := len(stored) - went.get((broker, level), 0)) > 0:
            came_in_all = many(len(stored), "message")
            yield f"{broker} has not delivered {count} of {came_in_all} of delay level {level}"


def _lately(entries: Sequence[Entry]) -> list[str]:
    names, from_us = NamesOfRun(entries), entries[-1].mono_us - LATELY_US
    moved = [
        entry
        for entry in entries
        if entry.mono_us >= from_us and isinstance(entry.fact, QueuesClaimed | QueuesReleased)
    ]
    lines = [told(run, names) for run in runs_of(moved, names)]
    return [f"  {line.at_s:.3f} s, {line.node} {line.text}" for line in lines[-LATELY_MAX:]]


def _lags(entries: Sequence[Entry]) -> Iterator[str]:
    """Queues in which a group has consumed more than it has committed."""
    judging = Judging(())
    judging.take(entries)
    groups = judging.scene.seats.keys() - judging.scene.broadcast
    behind = [
        reading
        for reader, reading in judging.progress.readings()
        if reader in groups and (reading.committed or 0) < reading.records.behind
    ]
    names, until_us = NamesOfRun(entries), entries[-1].mono_us
    pairs = [(reading.reader, reading.queue) for reading in behind[:QUEUES_TOLD_MAX]]
    stories = stories_of(entries, names, pairs, until_us)
    for reading in behind[:QUEUES_TOLD_MAX]:
        committed = "nothing" if reading.committed is None else reading.committed
        yield (
            f"{place_of(reading.queue)}: {reading.reader} has consumed everything, and committed "
            f"{committed} where the queue ends at {reading.records.behind}"
        )
        story = stories[reading.reader, reading.queue]
        yield from (f"  {line}" for line in lines_of(story, names, until_us))
    if (more := len(behind) - QUEUES_TOLD_MAX) > 0:
        yield f"and the same in {many(more, 'queue')} more"


def _unowned(entries: Sequence[Entry], scope: str) -> Iterator[str]:
    """The queues that had no owner for longest: who held them before, and what passes made."""
    judging = Judging((OneOwner,))
    judging.take(entries)
    judging.end()
    (checker,) = judging.checkers
    assert isinstance(checker, OneOwner)
    names = NamesOfRun(entries)
    gaps = [each for each in checker.unowned() if scope in ("", each.group)]
    for gap in gaps[:GAPS_MAX]:
        seconds = (gap.until_us - gap.from_us) / 1_000_000
        yield (
            f"{place_of(gap.queue)} had no owner in {gap.group} for {seconds:.1f} s, from "
            f"{gap.from_us / 1_000_000:.3f} s to {gap.until_us / 1_000_000:.3f} s"
        )
        pair = (gap.group, gap.queue)
        story = stories_of(entries, names, [pair], gap.until_us - 1)[pair]
        yield from (f"  {line}" for line in lines_of(story, names, gap.from_us))


Explain: TypeAlias = Callable[[Sequence[Entry], str], Iterator[str]]
EXPLAINED: Mapping[str, Explain] = {
    "backlog": _backlog,
    "stuck": _backlog,
    "unrest": _unrest,
    "unowned_s": _unowned,
    "unowned_queue_s": _unowned,
    "starved_queues": _unowned,
    "waiting": lambda entries, *_: _waits(entries),
}
