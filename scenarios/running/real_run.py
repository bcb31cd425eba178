"""One plan in a world of real time: a plan of a minute takes a minute.

The journals of nodes, clients and of the run itself are files of one folder, which are read while
the run goes on.  At the end they are one journal, cut where the run ended, and judged as any
other.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import trio

from emulator.checks.judging import judge
from emulator.cluster.ending import end_when_told
from emulator.cluster.spawning import end_forker
from emulator.facts import RunEnded
from emulator.journal import WORLD_NODE, Entry
from emulator.net.plain_nursery import plain_nursery
from scenarios.running.client_processes import ClientDied, ClientProcesses
from scenarios.running.code_version import code_version
from scenarios.running.director import Director
from scenarios.running.following import Following, in_time
from scenarios.running.real_stage import RealStage
from scenarios.running.real_worlds import world_of
from scenarios.running.verdicts import result_of, started
from scenarios.running.virtual_run import LimitPassed, text_of
from scenarios.running.waiting import what_waits

if TYPE_CHECKING:
    from emulator.cluster.forking import Forker
    from scenarios.result import RunResult
    from scenarios.running.orders import RunOrder

LOOK_EVERY_S = 0.05


class RunStopped(Exception):
    """A signal has ended the run: SIGTERM, of who ordered it."""


def finished_real_run(order: RunOrder, forker: Forker) -> tuple[RunResult, list[Entry]]:
    """Run and judge it; the row, and the journal.

    Whatever goes wrong inside is a row with the verdict ``error``.
    """
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="rmqemu-run-") as folder:
        run = RealRun(order, Path(folder), forker)
        run.run()
    entries = run.journal()
    result = result_of(
        order.plan,
        run.began,
        run.ended,
        judge(entries),
        run_s=(entries[-1].mono_us - entries[0].mono_us) / 1_000_000,
        took_s=time.perf_counter() - began_s,
    )
    return result, entries


class RealRun:
    """``began`` is the first fact of its journal, ``ended`` the last."""

    def __init__(self, order: RunOrder, folder: Path, forker: Forker) -> None:
        self.began = started(order.plan, order.seed, order.world, code_version())
        self.ended = RunEnded("error", "it has not begun")
        self._unrest = ""
        self._order = order
        self._limits = order.plan.limits
        self._forker = forker
        self._folder = folder
        self._following = Following(folder)
        self._entries: list[Entry] = []

    def run(self) -> None:
        """Until it ends, one way or another: ``ended`` says how, and nothing of it runs on."""
        order = self._order
        with ExitStack() as closing:
            closing.callback(self._following.close)
            closing.callback(end_forker)  # of nodes, if there is one
            closing.callback(self._forker.close)
            clients = ClientProcesses(self._forker, self._folder)
            world = world_of(order.plan, order.world, self._folder, clients)
            stage = RealStage(order.plan, world, clients, closing)
            closing.callback(clients.kill_all)
            stage.note(self.began)
            try:
                trio.run(self._live_until_told, stage)
            except RunStopped:
                self._close(stage, "interrupted", "it was told to end")
            except LimitPassed as error:
                self._close(stage, "limit", str(error))
            except ClientDied as error:
                self._close(stage, "error", str(error))
            except Exception as error:  # noqa: BLE001  # any defect, of a program or ours, is a row
                self._close(stage, "error", text_of(error))
            else:
                self._close(stage, "finished", self._unrest)
            clients.kill_all()

    def journal(self) -> list[Entry]:
        """All entries by time, up to the end of the run."""
        entries = in_time(self._entries)
        ends = [
            at
            for at, entry in enumerate(entries)
            if entry.node == WORLD_NODE and isinstance(entry.fact, RunEnded)
        ]
        return entries[: ends[0] + 1]

    async def _live_until_told(self, stage: RealStage) -> None:
        told = trio.Event()
        loop = trio.lowlevel.current_trio_token()
        with end_when_told(lambda: loop.run_sync_soon(told.set)):
            async with plain_nursery() as nursery:
                nursery.start_soon(self._live, stage, nursery.cancel_scope)
                await told.wait()
                raise RunStopped

    async def _live(self, stage: RealStage, scope: trio.CancelScope) -> None:
        director = Director(stage, self._order.seed)
        async with plain_nursery() as nursery:
            nursery.start_soon(self._follow, stage, director)
            await director.run()
            self._unrest = director.unrest
            scope.cancel()

    async def _follow(self, stage: RealStage, director: Director) -> None:
        """Tell the director what happens, and end the run when somebody dies of himself."""
        began_s = trio.current_time()
        while True:
            self._read(stage)
            stage.check()
            passed_s = trio.current_time() - began_s
            limit = ""
            if len(self._entries) >= self._limits.facts_max:
                limit = f"{self._limits.facts_max:,} facts (limits.facts_max)"
            elif passed_s >= self._limits.virtual_s_max:
                limit = f"{self._limits.virtual_s_max:g} s (limits.virtual_s_max)"
            if limit:
                waits = what_waits(stage, director)
                raise LimitPassed(f"it passed {limit} at {passed_s:.0f} s. {waits}")
            await trio.sleep(LOOK_EVERY_S)

    def _read(self, stage: RealStage) -> None:
        for entry in self._following.read():
            self._entries.append(entry)
            stage.watch.take(entry)

    def _close(
        self,
        stage: RealStage,
        reason: Literal["finished", "limit", "error", "interrupted"],
        detail: str,
    ) -> None:
        self.ended = RunEnded(reason, detail)
        stage.note(self.ended)
        self._read(stage)
