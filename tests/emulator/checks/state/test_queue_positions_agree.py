"""The cheap fold of positions and the checkers' fold of all messages give the same offsets."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.state.queue_positions import QueuePositions
from rocketmq_emulator.facts import PowerLost
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.running.virtual_run import finished_run

LOSING_POWER = ("a_power_loss_hides_new_messages", "a_retry_is_lost_with_the_power")


def positions_after(entries: list[Entry]) -> QueuePositions:
    positions = QueuePositions()
    table = positions.table()
    for entry in entries:
        if (take := table.get(type(entry.fact))) is not None:
            take(entry.fact, entry)
    return positions


@pytest.mark.parametrize("name", LOSING_POWER)
def test_what_is_stored_and_committed_is_the_same_for_a_run_and_its_checkers(name: str) -> None:
    _, entries = finished_run(load(name), seed=1)
    assert any(type(entry.fact) is PowerLost for entry in entries)
    positions, judging = positions_after(entries), Judging(checkers=())
    judging.take(entries)
    queues = judging.messages.queues
    known = {queue: end for queue, end in positions.ends.items() if end}
    assert known
    assert known == {queue: it.end_offset for queue, it in queues.items() if it.end_offset}
    readers = judging.progress.readers
    for group, offsets in positions.committed.items():
        found = {queue: readers[group][queue].committed for queue in offsets}
        assert found == offsets
    assert any(positions.committed.values())
