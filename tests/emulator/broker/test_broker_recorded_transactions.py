"""Our answers about transactions equal those of real brokers, those to bad requests included."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.emulator.broker.test_broker_recorded_answers import RELEASES, answers_of_ours
from tests.parity.differences import CHOSEN_OF_TRANSACTIONS, agree
from tests.parity.recording import recorded
from tests.parity.steps import STEPS_OF, titles_of

STEPS = STEPS_OF["transactions"]


@pytest.mark.parametrize("release", RELEASES)
async def test_every_answer_about_a_transaction_is_a_real_broker_s(
    release: str, autojump_clock: MockClock
) -> None:
    real, ours = recorded(release, "transactions"), await answers_of_ours(release, STEPS)
    assert set(real) == set(ours) == set(titles_of(STEPS))
    differing = {t: (real[t], ours[t]) for t in real if not agree(real[t], ours[t])}
    assert {t: found for t, found in differing.items() if t not in CHOSEN_OF_TRANSACTIONS} == {}
    if release == "5.3.3":
        assert differing.keys() == CHOSEN_OF_TRANSACTIONS.keys()
