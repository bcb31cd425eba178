"""Our answers to three hundred good and bad requests equal those of real brokers of both lines.

Code, ext fields, body and the whole remark are compared.  ``CHOSEN`` lists the answers that
differ on purpose, with their reasons; they must still differ.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.protocol.command import RemotingCommand
from tests.parity.answer import position_of, shown
from tests.parity.broker_connection import ANSWER_S_MAX, command_of
from tests.parity.differences import CHOSEN, agree
from tests.parity.question import CloseConnection, Sleep, Step
from tests.parity.recording import recorded
from tests.parity.steps import STEPS, TITLES
from tests.support.broker.bench import Bench, Client

RELEASES = ["4.9.7", "5.3.3"]


async def answers_of_ours(release: str, steps: tuple[Step, ...] = STEPS) -> dict[str, Any]:
    """The answers of a new broker of ours to all *steps*, by title."""
    answers: dict[str, Any] = {}
    lines: dict[str, Client] = {}
    kept: dict[str, str] = {}
    async with trio.open_nursery() as nursery:
        bench = Bench(release=release)
        bench.start(nursery)
        for step in steps:
            if isinstance(step, Sleep):
                await trio.sleep(step.ms / 1_000)
            elif isinstance(step, CloseConnection):
                lines.pop(step.by).close()
            else:
                line = lines.get(step.by) or lines.setdefault(step.by, bench.client())
                reply = await _answer(line, command_of(step, kept))
                if step.keep is not None:
                    kept[step.keep[1]] = position_of(reply)
                answers[step.title] = shown(reply)
        bench.no_bugs()
        nursery.cancel_scope.cancel()
    return answers


async def _answer(line: Client, command: RemotingCommand) -> RemotingCommand | None:
    """The reply, at once or after ``ANSWER_S_MAX``, if a member does not answer; or None."""
    reply = line.say(command)
    if reply is None:
        await trio.sleep(ANSWER_S_MAX)
        reply = line.answer_to(line.last_opaque)
    return reply


@pytest.mark.parametrize("release", RELEASES)
async def test_every_answer_is_a_real_broker_s_or_differs_on_purpose(
    release: str, autojump_clock: MockClock
) -> None:
    real, ours = recorded(release), await answers_of_ours(release)
    assert set(real) == set(ours) == set(TITLES)
    differing = {t: (real[t], ours[t]) for t in TITLES if not agree(real[t], ours[t])}
    assert {t: found for t, found in differing.items() if t not in CHOSEN} == {}


async def test_no_difference_is_listed_that_has_gone(autojump_clock: MockClock) -> None:
    differing: set[str] = set()
    for release in RELEASES:
        real, ours = recorded(release), await answers_of_ours(release)
        differing |= {title for title in TITLES if not agree(real[title], ours[title])}
    assert CHOSEN.keys() - differing == set()
