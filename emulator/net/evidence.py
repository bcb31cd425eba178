"""Facts about the requests of a server: which came, and which were answered slowly.

Nothing is paid for what nobody asks: a server has the link only where its journal takes
``RequestReceived``, and the observer only where ``slow_answer_ms`` is set.
"""

from __future__ import annotations

from typing import Any

from emulator.facts import RequestAnsweredSlowly, RequestReceived
from emulator.journal import Journal
from emulator.net.chain import Answered, Place
from emulator.net.remoting import Remoting
from emulator.net.results import Call


def note_requests(server: Remoting, journal: Journal) -> None:
    """Let *server* note its requests as its *journal* and its settings ask for."""
    note_received(server, journal)
    if server.config.slow_answer_ms:
        _note_slow(server, journal)


def note_received(server: Remoting, journal: Journal) -> None:
    """From now on if the journal wants that, else no more."""
    if not journal.wants(RequestReceived):
        server.chain.put(Place.EVIDENCE, None)
        return

    def note(call: Call[Any]) -> None:
        command = call.command
        journal.note(RequestReceived(call.peer.address, command.code, command.opaque or 0))

    server.chain.put(Place.EVIDENCE, note)


def _note_slow(server: Remoting, journal: Journal) -> None:
    """From arrival to answer; what a client asked to be held for is not slow."""
    clock, threshold_ms = server.clock, server.config.slow_answer_ms

    def note(answered: Answered) -> None:
        took_ms = clock.now_ms() - answered.arrived_ms
        if took_ms >= threshold_ms and not answered.held_on_purpose:
            code = answered.command.code
            journal.note(RequestAnsweredSlowly(answered.peer.address, code, took_ms))

    server.chain.observer = note
