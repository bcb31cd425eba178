"""Our answers to groups that filter by SQL92 equal those of real brokers of both lines.

Code, ext fields, body, and the first line of the remark are compared: a second line has upstream's
list of what its parser expected, or a hint of ours.  ``DIFFERENT`` has the answers that differ on
purpose, with their reasons; they must still differ.
"""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from tests.emulator.broker.test_broker_recorded_answers import RELEASES, answers_of_ours
from tests.parity.answer import EXCEPTION
from tests.parity.differences import is_exception
from tests.parity.recording import recorded
from tests.parity.steps import STEPS_OF, titles_of

STEPS = STEPS_OF["filters"]
DIFFERENT = {
    # An absent expression is ``*`` in subscriptions here, and ``*`` is no SQL92: the code is 23
    # in both, but upstream's remark is that of a NullPointerException, none.
    "no expression": "the error of `*`, and not no remark",
    "an expression that is null": "the error of `*`, and not no remark",
    # Upstream reads the word null as a missing body.  Ours refuses a body that is no object.
    "a check of null": "a body that is no object is refused",
}


@pytest.mark.parametrize("release", RELEASES)
async def test_every_answer_to_a_group_that_filters_is_a_real_broker_s(
    release: str, autojump_clock: MockClock
) -> None:
    real, ours = recorded(release, "filters"), await answers_of_ours(release, STEPS)
    assert set(real) == set(ours) == set(titles_of(STEPS))
    differing = {t: (real[t], ours[t]) for t in real if not agree_in_first_line(real[t], ours[t])}
    assert {t: found for t, found in differing.items() if t not in DIFFERENT} == {}
    assert DIFFERENT.keys() - differing == set()


def agree_in_first_line(real: dict[str, Any], ours: dict[str, Any]) -> bool:
    if is_exception(real):
        return real["code"] == ours["code"]
    is_failure = first_line(real).startswith("Cannot invoke")  # in a remark of a refusal
    same = is_failure or first_line(real) == first_line(ours)
    return same and {**real, "remark": ""} == {**ours, "remark": ""}


def first_line(answer: dict[str, Any]) -> str:
    remark: str = (answer["remark"] or "").partition("\n")[0]
    # ``shown`` cuts an exception's remark before its lines are told apart.
    return remark[:190] if EXCEPTION.match(remark) else remark
