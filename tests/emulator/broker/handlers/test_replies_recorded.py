"""Our answers to replies, what we push, and queries by colliding keys equal a real broker's.

``CHOSEN`` lists the questions whose answers differ on purpose, with their reasons.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.protocol.command import encode_command
from tests.parity.broker_connection import command_of
from tests.parity.question import CloseConnection, Question, Sleep
from tests.parity.recording import recorded
from tests.parity.reply_steps import PUSH_MS_MAX, STEPS, Push, agree, answer_to, recorded_form
from tests.support.broker.bench import Bench, Client

CHOSEN = {
    # Upstream fails at an absent flag when it reads it first, which a reply never makes it do.
    "without f (sysFlag)": "an absent flag is refused in replies as in other sends",
}


class Connections:
    """Clients of a bench, by name; each answers what is pushed to it."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._clients: dict[str, Client] = {}

    async def ask(self, question: Question) -> dict[str, Any]:
        client = self._clients.get(question.by)
        if client is None:
            client = self._clients[question.by] = self._bench.client()
        command = command_of(question, {})
        client.say(command)
        opaque, pushes = client.last_opaque, self._answered_pushes()
        if client.answer_to(opaque) is None:
            await trio.sleep(PUSH_MS_MAX / 1_000 + 1)
        return recorded_form(client.answer_to(opaque), pushes)

    def close(self, name: str) -> None:
        self._clients.pop(name).close()

    def _answered_pushes(self) -> list[Push]:
        pushes = []
        for name, client in self._clients.items():
            heard, client.heard = client.heard, []
            for push in heard:
                pushes.append((name, push))
                if (answer := answer_to(push)) is not None:
                    client.endpoint.feed(encode_command(answer))
        return pushes


async def answers_of_ours(release: str) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        bench = Bench(release=release)
        bench.start(nursery)
        connections = Connections(bench)
        for step in STEPS:
            if isinstance(step, Sleep):
                await trio.sleep(step.ms / 1_000)
            elif isinstance(step, CloseConnection):
                connections.close(step.by)
            else:
                answers[step.title] = await connections.ask(step)
        bench.no_bugs()
        nursery.cancel_scope.cancel()
    return answers


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
async def test_replies_are_pushed_stored_and_refused_as_by_a_real_broker(
    release: str, autojump_clock: MockClock
) -> None:
    real, ours = recorded(release, "replies"), await answers_of_ours(release)
    assert real.keys() == ours.keys()
    differing = {title for title in real if not agree(real[title], ours[title])}
    assert {t: (real[t], ours[t]) for t in differing if t not in CHOSEN} == {}


async def test_no_difference_of_replies_is_listed_that_has_gone(
    autojump_clock: MockClock,
) -> None:
    differing: set[str] = set()
    for release in ("4.9.7", "5.3.3"):
        real, ours = recorded(release, "replies"), await answers_of_ours(release)
        differing |= {title for title in real if not agree(real[title], ours[title])}
    assert CHOSEN.keys() - differing == set()
