"""Extension calls, besides reply rules: a server's clock, its reset and its facts.

A server notes facts about its requests: which it received, and which it answered slowly.  That
costs nothing unless it is wanted: the link in the chain is set only if the journal takes
``RequestReceived``, and the observer only if ``slow_answer_ms`` is set.

A peer fetches facts over a connection of its own: the server listens to its journal while that
connection is open, and keeps a bounded number of lines until the next call.  A slow reader loses
lines; the reply has their number.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeAlias

from rocketmq_emulator.clocks.clock import ClockError
from rocketmq_emulator.disk.port import WRITE_ERRORS, reason
from rocketmq_emulator.facts import Fact, RequestAnsweredSlowly, RequestReceived, all_facts
from rocketmq_emulator.facts.journal import Entry, Journal, encode_entry
from rocketmq_emulator.net.dispatch import AnsweredRequest, HookPosition, Row, table_of
from rocketmq_emulator.net.remoting import Remoting
from rocketmq_emulator.net.reply_rules import check_allowed, extension_body_of, install_reply_rules
from rocketmq_emulator.net.results import Call, Peer, Refusal, Reply, Result, Wait
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.extensions import (
    B,
    ClockSkew,
    FetchFacts,
)
from rocketmq_emulator.protocol.codes import EXTENSION_CODES, ResponseCode
from rocketmq_emulator.protocol.fields import Header

LISTENERS_MAX = 16
LINES_MAX, LINES_BYTES_MAX = 20_000, 8 * 1024 * 1024  # kept for each listener
ANSWER_BYTES_MAX = 1024 * 1024
RESET_MS_MAX = 3_000  # wait for the NameServers' registration
Reset: TypeAlias = Callable[[int], Hashable | None]  # reset(now_ms)


def answer_extension_calls(
    server: Remoting, journal: Journal, *, allowed: bool, rng: random.Random, reset: Reset
) -> None:
    """Let *server* answer every extension call, and apply the reply rules that are set.

    ``reset(now_ms)`` resets its role to the state after a start.  It returns the bell that is
    rung when the broker is registered again, or None.
    """
    rules = install_reply_rules(server, allowed=allowed, rng=rng)

    def reset_all(now_ms: int) -> Hashable | None:
        rules.reset()
        return reset(now_ms)

    rows = ExtensionCalls(server, journal, reset_all, allowed=allowed).rows()
    server.handlers = {**server.handlers, **table_of(rows, server.release)}


class ExtensionCalls:
    """The handlers: the clock of one *server*, its reset, the listeners of its *journal*."""

    def __init__(self, server: Remoting, journal: Journal, reset: Reset, *, allowed: bool) -> None:
        self._server = server
        self._reset = reset
        self._journal = journal
        self._allowed = allowed
        self._listeners: dict[Peer, _FactListener] = {}

    def rows(self) -> tuple[Row, ...]:
        """The rows for the server's table."""
        return (
            Row(catalog.SET_CLOCK_SKEW, self.set_clock_skew),
            Row(catalog.FETCH_FACTS, self.fetch_facts),
            Row(catalog.RESET_SERVER, self.reset_server),
        )

    def set_clock_skew(self, call: Call[Header]) -> Result:
        """From now on the wall clock has this error; timers that are set already stay."""
        wanted, clock = self._body(call, ClockSkew), self._server.clock
        since_ms = wanted.since_ms
        if since_ms is None:
            goes_on = clock.error.drift_ppm == wanted.drift_ppm
            since_ms = clock.error.since_ms if goes_on else clock.true_ms()
        clock.error = ClockError(wanted.ms, wanted.drift_ppm, since_ms)
        return Reply()

    def reset_server(self, _call: Call[Header]) -> Result:
        """Reset the server to its state after a start; replies when it is registered again.

        Its clock error is 0 again, and its reply rules are removed.  Connections stay open.
        """
        check_allowed("this is", allowed=self._allowed)
        clock = self._server.clock
        clock.error = ClockError()
        try:
            bell = self._reset(clock.now_ms())
        except WRITE_ERRORS as error:
            remark = f"the store cannot be reset: {reason(error)}"
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
        if bell is None:
            return Reply()
        return Wait(bell, clock.now_ms() + RESET_MS_MAX, lambda _now_ms, _expired: Reply())

    def fetch_facts(self, call: Call[Header]) -> Result:
        """Reply with the lines since the last call, or wait for some; the first call listens."""
        wanted = self._body(call, FetchFacts)
        listener = self._listeners.get(call.peer) or self._begin(call.peer, wanted)
        if listener.has_news or not wanted.wait_ms:
            return listener.answer()
        return Wait(
            on=listener,
            until_ms=call.now_ms + wanted.wait_ms,
            resume=lambda _now_ms, _expired: listener.answer(),
            gone=partial(self._end, call.peer),
            on_purpose=True,
        )

    # Inside ---------------------------------------------------------------------------

    def _body(self, call: Call[Header], kind: type[B]) -> B:
        check_allowed("this is", allowed=self._allowed)
        return extension_body_of(call, kind)

    def _begin(self, peer: Peer, wanted: FetchFacts) -> _FactListener:
        for other in [other for other in self._listeners if not other.is_open]:
            self._end(other)
        if len(self._listeners) >= LISTENERS_MAX:
            raise Refusal(ResponseCode.SYSTEM_BUSY, f"{LISTENERS_MAX} peers fetch facts already")
        kinds = None if wanted.kinds is None else _kinds(wanted.kinds)
        listener = self._listeners[peer] = _FactListener(self._server)

        def take(entry: Entry) -> None:
            if peer.is_open:
                listener.take(entry)
            else:  # it closed between two calls
                self._end(peer)

        listener.leave = partial(self._journal.unlisten, take)
        self._journal.listen(take, kinds)
        note_received(self._server, self._journal)
        return listener

    def _end(self, peer: Peer) -> None:
        if (listener := self._listeners.pop(peer, None)) is not None:
            listener.leave()
            note_received(self._server, self._journal)


class _FactListener:
    """The unread lines of one peer.  It is also the bell on which the peer's call is held."""

    def __init__(self, server: Remoting) -> None:
        self._server = server
        self._lines: deque[bytes] = deque()
        self._lines_bytes = 0
        self._lost_count = 0
        self.leave: partial[None]

    @property
    def has_news(self) -> bool:
        return bool(self._lines or self._lost_count)

    def take(self, entry: Entry) -> None:
        fact = entry.fact
        if isinstance(fact, RequestReceived) and fact.code in EXTENSION_CODES:
            return  # else each fetch would cause the next line
        line = encode_entry(entry)
        if len(self._lines) < LINES_MAX and self._lines_bytes + len(line) <= LINES_BYTES_MAX:
            self._lines.append(line)
            self._lines_bytes += len(line)
        else:
            self._lost_count += 1
        self._server.ring(self, None)

    def answer(self) -> Reply:
        """A reply with as many lines as fit, and how many lines after them were lost."""
        size, lines = 0, []
        while self._lines and size < ANSWER_BYTES_MAX:
            lines.append(self._lines.popleft())
            size += len(lines[-1])
        self._lines_bytes -= size
        lost = 0
        if not self._lines:
            lost, self._lost_count = self._lost_count, 0
        return Reply(body=b"".join(lines), extra={"lost": str(lost)})


def _kinds(names: tuple[str, ...]) -> frozenset[type[Fact]]:
    known = {kind.__name__: kind for kind in all_facts()}
    if unknown := sorted(set(names) - known.keys()):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"{', '.join(unknown)}: no kind of fact")
    return frozenset(known[name] for name in names)


# Facts about requests -----------------------------------------------------------------


def note_requests(server: Remoting, journal: Journal) -> None:
    """Let *server* note its requests if its *journal* and its settings want that."""
    note_received(server, journal)
    if server.config.slow_answer_ms:
        _note_slow(server, journal)


def note_received(server: Remoting, journal: Journal) -> None:
    """Note each request from now on if the journal wants that, else stop."""
    if not journal.wants(RequestReceived):
        server.chain.put(HookPosition.REQUEST_FACTS, None)
        return

    def note(call: Call[Any]) -> None:
        command = call.command
        journal.note(RequestReceived(call.peer.address, command.code, command.opaque or 0))

    server.chain.put(HookPosition.REQUEST_FACTS, note)


def _note_slow(server: Remoting, journal: Journal) -> None:
    """Note requests with a long time from arrival to reply, except long polls."""
    clock, threshold_ms = server.clock, server.config.slow_answer_ms

    def note(answered: AnsweredRequest) -> None:
        took_ms = clock.now_ms() - answered.arrived_ms
        if took_ms >= threshold_ms and not answered.held_on_purpose:
            code = answered.command.code
            journal.note(RequestAnsweredSlowly(answered.peer.address, code, took_ms))

    server.chain.observer = note
