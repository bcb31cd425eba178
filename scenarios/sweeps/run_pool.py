"""Parallel runs, each in its own process, and their rows in the order in which they finish.

    with RunPool() as pool:
        for row in pool.rows(orders, jobs=2):
            ...

A run whose process dies, or that takes too long, gives a row with the verdict ``error`` and the
reason; the others continue.  Leaving the block ends all runs that have not finished.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import IO, Self

import msgspec

from rocketmq_emulator.cluster.world import STOP_S_MAX, WorldKind
from rocketmq_emulator.processes.spawning import (
    ForkedNode,
    NodeForkClient,
    NoForks,
    node_environment,
)
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult, without_answer

JOBS: Mapping[WorldKind, int] = {  # runs at once; in real time they would disturb each other
    "virtual": len(os.sched_getaffinity(0)),
    "embedded": 1,
    "processes": 1,
}
RUN_S_MAX = 600.0  # of real time, for one run
REAL_STOP_S_MAX = 2 * STOP_S_MAX  # of a run in real time: its clients, then its nodes
POLL_INTERVAL_S = 0.2
TRACEBACK_S_MAX = 1.0
ERROR_TEXT_MAX = 2_000  # characters at the end of what a run wrote before it died


class RunPool:
    """Processes that run orders; a run that takes more than *run_s_max* of real time is ended.

    *look* is called every 0.2 s or more often while rows are awaited.
    """

    def __init__(
        self, look: Callable[[], object] = lambda: None, run_s_max: float = RUN_S_MAX
    ) -> None:
        self._look = look
        self._run_s_max = run_s_max
        self._forker: NodeForkClient | None = None
        self._running: list[_RunProcess] = []

    def __enter__(self) -> Self:
        self._forker = NodeForkClient(
            node_environment(), "rocketmq_emulator.scenarios.sweeps.run_forks"
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._running:
            self._running.pop().end()
        if self._forker is not None:
            self._forker.close()

    def rows(self, orders: Iterable[RunOrder], jobs: int) -> Iterator[RunResult]:
        """One row for each order, in the order in which they finish; *jobs* run at once."""
        return (row for _, row in self.finished(orders, jobs))

    def finished(
        self, orders: Iterable[RunOrder], jobs: int
    ) -> Iterator[tuple[RunOrder, RunResult]]:
        """As ``rows``, each row with its order."""
        waiting = iter(orders)
        while True:
            while len(self._running) < jobs and (order := next(waiting, None)) is not None:
                self._running.append(self._begun(order))
            if not self._running:
                return
            for running in self._readable():
                if (row := running.read()) is not None:
                    self._running.remove(running)
                    yield running.order, row
            self._look()

    def _begun(self, order: RunOrder) -> _RunProcess:
        assert self._forker is not None, "a RunPool is used inside its `with`"
        errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the run ends
        try:
            process = self._forker.fork([], errors)
        except NoForks:  # the process that forks was killed: start a new one
            self._forker.close()
            self._forker = NodeForkClient(
                node_environment(), "rocketmq_emulator.scenarios.sweeps.run_forks"
            )
            process = self._forker.fork([], errors)
        return _RunProcess(order, process, errors, self._run_s_max)

    def _readable(self) -> list[_RunProcess]:
        files = [running.output for running in self._running]
        ready, _, _ = select.select(files, (), (), POLL_INTERVAL_S)
        return [one for one in self._running if one.output in ready or one.is_late]


class _RunProcess:
    """The process of one run."""

    def __init__(
        self, order: RunOrder, process: ForkedNode, errors: IO[bytes], run_s_max: float
    ) -> None:
        self.order = order
        self._process = process
        self._errors = errors
        self._began_s = time.monotonic()
        self._run_s_max = run_s_max
        self._answer = bytearray()
        self.output = process.stdout.fileno()
        with process.stdin, contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(order))

    @property
    def is_late(self) -> bool:
        """Has it run longer than *run_s_max*?"""
        return time.monotonic() - self._began_s > self._run_s_max

    def read(self) -> RunResult | None:
        """The row of the run if it has ended or is late, else None."""
        if self.is_late:
            late = f"it was still running after {self._run_s_max:g} s"
            return self._error(f"{late}: {self._where()}")
        part = os.read(self.output, 1 << 20)
        self._answer += part
        if part:
            return None
        code = self._process.wait()
        try:
            row = msgspec.json.decode(self._answer, type=RunResult)
        except msgspec.DecodeError:
            return self._error(f"its process ended with {_ending(code)}: {self._stderr_tail()}")
        self._close()
        return row

    def end(self) -> None:
        """Kill the process; in real time it first gets ``REAL_STOP_S_MAX`` to stop its nodes."""
        if self.order.world != "virtual":
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(REAL_STOP_S_MAX)
        self._process.kill()
        self._process.wait()
        self._close()

    def _where(self) -> str:
        """The traceback of its Python code, which SIGUSR1 makes it write."""
        self._process.send_signal(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(TRACEBACK_S_MAX)
        return self._stderr_tail()

    def _stderr_tail(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - ERROR_TEXT_MAX))
        return self._errors.read().decode(errors="replace").strip() or "it wrote nothing"

    def _error(self, reason: str) -> RunResult:
        self.end()
        order, took_s = self.order, time.monotonic() - self._began_s
        return without_answer(order.plan, order.seed, order.world, reason, took_s=took_s)

    def _close(self) -> None:
        self._process.stdout.close()
        self._errors.close()


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
