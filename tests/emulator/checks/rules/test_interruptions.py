"""The longest pauses of what is written and read, as clients see them."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import SendFailed
from tests.support.checks.small_journals import Q0, AJournal


def pauses(journal: AJournal) -> dict[str, float]:
    judgement = journal.judged()
    assert judgement.raised == {}
    named = {name: round(value, 3) for name, value in judgement.metrics.items()}
    return {name: value for name, value in named.items() if "_pause_s" in name}


def a_group() -> AJournal:
    return AJournal().runs().store().consumer("billing-1").pulled(0, 0).claimed("billing-1", Q0)


def test_the_longest_time_between_two_acknowledged_sends_is_a_pause() -> None:
    journal = a_group()
    for offset, at_s in enumerate((0, 1, 2, 9.5, 10)):
        journal.at_s(at_s).sent(offset)
    assert pauses(journal)["write_pause_s.orders"] == 7.5


@pytest.mark.parametrize(("failed_s", "pause_s"), [(None, 1), (1.5, 1), (4, 3)])
def test_a_pause_lasts_until_the_last_failed_send(failed_s, pause_s) -> None:
    journal = a_group().sent(0).at_s(1).sent(1)
    if failed_s is not None:
        journal.at_s(failed_s).note(
            "producer-1", SendFailed("orders", "key", 1, "late", maybe_stored=True)
        )
    assert pauses(journal.at_s(20))["write_pause_s"] == pause_s


def test_the_longest_time_between_two_consumed_messages_is_a_pause_of_their_group() -> None:
    journal = a_group()
    for offset, at_s in enumerate((0, 2, 3)):
        journal.at_s(at_s).sent(offset).at_s(at_s + 0.5).consumed("billing-1", offset)
    found = pauses(journal)
    assert found["read_pause_s.billing"] == 2
    assert found["read_pause_s"] == 2
