"""Extension calls for the clock, facts and reset of a server, by raw frames."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import NodeStopped, RequestReceived, TopicCreated
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.net import own_calls
from rocketmq_emulator.net.own_calls import answer_extension_calls
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand, encode_command
from tests.support.net.wired_server import Server, Wire

SKEW, FETCH, RESET = 9003, 9004, 9010
STOPPED = NodeStopped("broker", "asked")


class Listened(Server):
    """A server with a journal whose only listeners are the peers that fetch facts."""

    def __init__(self, *, allowed: bool = True) -> None:
        super().__init__()
        self.journal = Journal("broker-a", self.remoting.clock)
        self.note = self.journal.note
        self.reset_times: list[int] = []
        rng = random.Random(1)
        answer_extension_calls(
            self.remoting, self.journal, allowed=allowed, rng=rng, reset=self.reset_times.append
        )
        self._opaque = 0

    def ask(self, code: int, wire: Wire | None = None, **body: Any) -> RemotingCommand | None:
        """Send a request; returns the reply if it came at once."""
        wire = wire or self.wire
        self._opaque += 1
        data = msgspec.json.encode(body)
        wire.endpoint.feed(
            encode_command(RemotingCommand(code=code, opaque=self._opaque, body=data))
        )
        return self.answer(self._opaque, wire)

    def answer(self, opaque: int | None = None, wire: Wire | None = None):
        commands = (wire or self.wire).commands()
        return next((a for a in commands if a.opaque == (opaque or self._opaque)), None)

    def another(self) -> Wire:
        wire = Wire()
        wire.endpoint = self.remoting.accept(wire)
        return wire


def kinds(answer: RemotingCommand | None) -> list[str]:
    assert answer is not None
    return [msgspec.json.decode(line)["fact"]["kind"] for line in answer.body.splitlines()]


async def test_a_clock_is_wrong_from_now_on_and_right_again() -> None:
    server = Listened()
    right_ms = server.remoting.clock.now_ms()
    assert server.ask(SKEW, ms=3_600_000).code == 0
    assert server.remoting.clock.now_ms() - right_ms >= 3_600_000
    assert server.ask(SKEW, ms=0).code == 0
    assert server.remoting.clock.now_ms() - right_ms < 3_600_000


async def test_a_clock_drifts_until_it_is_right_and_a_jump_does_not_start_its_drift_anew(
    autojump_clock: MockClock,
) -> None:
    server = Listened()
    clock = server.remoting.clock

    def wrong_ms() -> int:
        return clock.now_ms() - clock.true_ms()

    assert server.ask(SKEW, ms=0, drift_ppm=1_000).code == 0
    await trio.sleep(100)
    assert wrong_ms() == 100
    assert server.ask(SKEW, ms=5_000, drift_ppm=1_000).code == 0
    assert wrong_ms() == 5_100
    since_ms = clock.true_ms() - 1_000_000
    assert server.ask(SKEW, ms=0, drift_ppm=-500, since_ms=since_ms).code == 0
    assert wrong_ms() == -500
    assert server.ask(SKEW, ms=0).code == 0
    assert wrong_ms() == 0


BAD_SKEWS = [{}, {"ms": "soon"}, {"ms": 10**15}, {"days": 1}, {"ms": 0, "drift_ppm": 500_001}]


@pytest.mark.parametrize("body", BAD_SKEWS, ids=str)
async def test_a_skew_that_makes_no_sense_is_refused_with_its_field(body) -> None:
    answer = Listened().ask(SKEW, **body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert any(name in answer.remark for name in ("ms", "days", "drift_ppm"))


async def test_where_they_are_not_allowed_the_setting_is_named() -> None:
    server = Listened(allowed=False)
    for code in (SKEW, FETCH):
        answer = server.ask(code, **({"ms": 1} if code == SKEW else {}))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "reply_rules_allowed=true" in answer.remark


async def test_facts_come_from_the_first_call_on_and_in_their_order() -> None:
    server = Listened()
    server.note(TopicCreated("before", 4, 4, 6, "send"))
    assert kinds(server.ask(FETCH)) == []
    server.note(TopicCreated("orders", 4, 4, 6, "send"))
    server.note(STOPPED)
    answer = server.ask(FETCH)
    assert kinds(answer) == ["TopicCreated", "NodeStopped"]
    assert answer.fields() == {"lost": "0"}
    entry = msgspec.json.decode(answer.body.splitlines()[0])
    assert (entry["node"], entry["fact"]["topic"]) == ("broker-a", "orders")
    assert kinds(server.ask(FETCH)) == []


async def test_a_call_waits_for_the_first_fact_or_until_its_time_is_over() -> None:
    server = Listened()
    assert server.ask(FETCH, wait_ms=5_000) is None
    server.note(STOPPED)
    assert kinds(server.answer()) == ["NodeStopped"]


async def test_only_the_kinds_that_are_wanted_come_also_those_on_demand() -> None:
    server = Listened()
    assert not server.journal.wants(RequestReceived)
    server.ask(FETCH, kinds=["NodeStopped", "RequestReceived"])
    assert server.journal.wants(RequestReceived)
    server.note(TopicCreated("orders", 4, 4, 6, "send"))
    server.note(RequestReceived("10.0.0.2:40001", 310, 1))
    # Requests that fetch facts are not returned: each would cause the next.
    server.note(RequestReceived("10.0.0.2:40001", FETCH, 2))
    server.note(STOPPED)
    assert kinds(server.ask(FETCH)) == ["RequestReceived", "NodeStopped"]


async def test_an_unknown_kind_is_named() -> None:
    answer = Listened().ask(FETCH, kinds=["NodeStopt"])
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark == "NodeStopt: no kind of fact"


async def test_nothing_is_paid_before_somebody_listens_and_after_he_has_gone() -> None:
    server = Listened()
    assert not server.journal.wants(NodeStopped)
    server.ask(FETCH)
    assert server.journal.wants(NodeStopped)
    server.wire.close()
    server.note(STOPPED)  # the next fact finds that it closed
    assert not server.journal.wants(NodeStopped)


async def test_who_goes_while_waiting_is_forgotten_at_once() -> None:
    server = Listened()
    server.ask(FETCH, wait_ms=5_000)
    server.wire.close()
    assert not server.journal.wants(NodeStopped)


async def test_a_slow_reader_loses_lines_and_is_told_how_many(monkeypatch) -> None:
    monkeypatch.setattr(own_calls, "LINES_MAX", 3)
    server = Listened()
    server.ask(FETCH)
    for number in range(5):
        server.note(TopicCreated(f"topic-{number}", 4, 4, 6, "send"))
    answer = server.ask(FETCH)
    assert len(answer.body.splitlines()) == 3
    assert answer.fields() == {"lost": "2"}
    assert server.ask(FETCH).fields() == {"lost": "0"}


async def test_a_long_backlog_comes_in_several_answers_and_the_loss_behind_it(monkeypatch) -> None:
    monkeypatch.setattr(own_calls, "ANSWER_BYTES_MAX", 1)
    monkeypatch.setattr(own_calls, "LINES_MAX", 2)
    server = Listened()
    server.ask(FETCH)
    for number in range(3):
        server.note(TopicCreated(f"topic-{number}", 4, 4, 6, "send"))
    answers = [server.ask(FETCH) for _ in range(2)]
    assert [(len(a.body.splitlines()), a.fields()["lost"]) for a in answers] == [
        (1, "0"),
        (1, "1"),
    ]


async def test_so_many_may_listen_and_those_who_have_gone_do_not_count(monkeypatch) -> None:
    monkeypatch.setattr(own_calls, "LISTENERS_MAX", 1)
    server = Listened()
    server.ask(FETCH)
    other = server.another()
    assert server.ask(FETCH, other).code == ResponseCode.SYSTEM_BUSY
    server.wire.close()
    assert server.ask(FETCH, other).code == 0


async def test_a_reset_sets_the_clock_right_and_ends_rules_and_what_they_delay() -> None:
    server = Listened()
    late = msgspec.json.encode({"code": 11, "delay_ms": 1})
    server.wire.endpoint.feed(encode_command(RemotingCommand(code=9000, opaque=90, body=late)))
    server.wire.endpoint.feed(encode_command(RemotingCommand(code=11, opaque=91)))
    server.ask(SKEW, ms=3_600_000)
    right_ms = server.remoting.clock.now_ms() - 3_600_000
    assert server.ask(RESET).code == ResponseCode.SUCCESS
    assert [ms - right_ms < 1_000 for ms in server.reset_times] == [True]
    assert server.ask(9001).body == b'{"rules":[]}'
    assert server.answer(91) is None
    server.remoting.timers.fire(trio.current_time() + 1)
    refused = server.answer(91)
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert "was reset while a reply rule delayed" in refused.remark


async def test_who_may_not_set_rules_may_not_reset_either() -> None:
    server = Listened(allowed=False)
    assert server.ask(RESET).code == ResponseCode.NO_PERMISSION
    assert server.reset_times == []
