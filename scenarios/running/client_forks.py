"""Clients of a run in real time: each a process of its own, forked from one that has loaded all.

The run forks that one off itself before it has a thread.  It keeps nothing of the run but a
socket: when that ends, so do it and all clients that are left, however the run ended.
"""

from __future__ import annotations

import os
import random
import socket
import sys
from pathlib import Path
from typing import NoReturn

import msgspec
import trio

from emulator.client import ClientProcess
from emulator.client.consumer.offsets import OffsetFolder
from emulator.clock import WallClock
from emulator.cluster.ending import end_when_told
from emulator.cluster.forking import Forker
from emulator.disk.line_file import LineFile
from emulator.facts import all_facts
from emulator.journal import Journal
from emulator.node_forks import Forks
from scenarios.running.parts import AnyPart
from scenarios.running.playing import play
from scenarios.running.virtual_run import FACTS_ON_DEMAND

FIRST_FILE = 3  # after standard input, output and error
FILES_MAX = 4_096  # more than a run has open when it has just begun


class ClientOrder(msgspec.Struct, frozen=True):
    """What one client plays, and the file its journal goes to."""

    part: AnyPart
    journal: str


def client_forker() -> Forker:
    """The process that forks clients.  To be called while this one has no thread."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _serve(theirs)
    theirs.close()
    return Forker(ours, lambda: os.waitpid(pid, 0))


def play_client() -> int:
    """One order, from standard input, until it is over or a signal ends it in order."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ClientOrder)
    trio.run(_play, order)
    return 0


def _serve(requests: socket.socket) -> NoReturn:
    try:
        os.closerange(FIRST_FILE, requests.fileno())
        os.closerange(requests.fileno() + 1, FILES_MAX)
        Forks(requests, play_client, kills=True).run()
    finally:
        os._exit(0)  # what the run has open is the run's to close


async def _play(order: ClientOrder) -> None:
    part = order.part
    clock = WallClock.of_this_machine()
    journal = Journal(part.name, clock, LineFile(order.journal).append)
    journal.ask_for([kind for kind in all_facts() if kind.__name__ in FACTS_ON_DEMAND])
    files = Path(order.journal).with_suffix("")  # relative folders are gone with the run
    ending = trio.Event()
    loop = trio.lowlevel.current_trio_token()
    with end_when_told(lambda: loop.run_sync_soon(ending.set)):
        async with ClientProcess(
            clock=clock,
            rng=random.Random(f"{part.seed}/{part.name}/{clock.mono_us()}"),
            note=journal.note,
            wants=journal.wants,
            default_namesrv="",
            open_folder=lambda folder: OffsetFolder(files / folder),
        ) as process:
            await play(part, process, lambda _under_way: None, ending)
