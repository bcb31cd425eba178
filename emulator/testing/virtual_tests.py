"""Tests in virtual time: each seed runs in its own process, a fork of the pytest process.

A virtual run is repeatable only in a process without another trio loop, and it must not depend on
random numbers and modules that earlier tests changed.  A fork provides both and costs some ms.
The parent gets the failure text as pytest shows it, and the journal up to the failure.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import os
import random
import re
import select
import signal
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import pytest
import trio

from rocketmq_emulator.admin.calls import admin_on
from rocketmq_emulator.checks.judging.reading import entries_in
from rocketmq_emulator.cluster.spec import ClusterFields, ClusterSpec, checked_spec
from rocketmq_emulator.cluster.world import MisusesFound
from rocketmq_emulator.facts import MisuseNoticed
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.sim.world import run_virtual
from rocketmq_emulator.testing.cluster_queries import create_topics, queues_by_topic
from rocketmq_emulator.testing.clusters import (
    JOURNAL,
    FailureFacts,
    fail_with,
    fields_of,
    hide_frames,
    is_strict,
    option,
    options_of,
)
from rocketmq_emulator.testing.virtual_rocketmq import VirtualRocketMQ

if TYPE_CHECKING:
    from rocketmq_emulator.client import ClientProcess
    from rocketmq_emulator.sim.world import VirtualWorld

SEED = 1  # of a test without the option
SEEDS_MAX = 10_000
VIRTUAL_S_MAX, REAL_S_MAX = 3_600.0, 120.0
READ_BYTES = 1 << 20


class NotAwaited(Misuse):
    """A test called a verb of its virtual cluster without ``await``, so nothing happened."""


class Outcome(msgspec.Struct):
    """The result of a forked test: the text of its failure, if any, and its journal."""

    failure: str
    skipped: str
    lines: list[bytes]
    began_us: int = 0  # virtual times: when the test function was called, and when it failed
    failed_us: int = 0
    error: str = ""  # its type and text
    queried: dict[str, tuple[str, ...]] = {}  # groups that the test named, with topics


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A sync test function that runs the async *test* for each of its seeds.

    If *test* is not async, a function that fails.
    """

    @functools.wraps(test)
    def run(*arguments: object, virtual_cluster: VirtualRuns, **others: object) -> None:
        virtual_cluster.run(functools.partial(test, *arguments, **others))

    @functools.wraps(test)
    def refuse(*_arguments: object, **_others: object) -> None:
        text = (
            f"{test.__name__} uses virtual_cluster: it must be async, for trio.  For a plain test "
            "use the fixture rocketmq, a cluster over TCP"
        )
        pytest.fail(text, pytrace=False)

    return run if inspect.iscoroutinefunction(test) else refuse


class VirtualRuns:
    """Runs one test for each of its seeds."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        given = options_of(item)
        fields = fields_of(given, option(item.config, "release"))
        self._topics = _queues(fields.pop("topics", ()))
        fields.pop("with_links", None)  # every link of the virtual world can have faults
        self._is_strict = bool(fields.pop("strict", is_strict(item.config)))
        self._spec = _spec(fields)
        self._seeds = _seeds(given, option(item.config, "seed"))
        self._virtual_s_max = float(given.get("virtual_s_max", VIRTUAL_S_MAX))

    def run(self, test: Callable[..., Awaitable[None]]) -> None:
        """Run each seed, up to the first that fails; then fail the pytest test."""
        for count, seed in enumerate(self._seeds, 1):
            outcome = _in_a_fork(functools.partial(self._outcome, test, seed))
            if outcome.skipped:
                pytest.skip(outcome.skipped)
            if outcome.failure:
                self._fail(outcome, seed, count)

    def _fail(self, outcome: Outcome, seed: int, count: int) -> None:
        again = f"{sys.executable} -m pytest {self._item.nodeid!r} --rocketmq-seed {seed}"
        again = again.replace(sys.executable, "python", 1)
        entries = list(entries_in(outcome.lines))
        self._item.stash[JOURNAL] = FailureFacts(
            entries, outcome.began_us, outcome.failed_us, outcome.queried
        )
        self._item.user_properties += [("rocketmq_seed", str(seed)), ("rocketmq_replay", again)]
        where = f"seed {seed} (run {count} of {len(self._seeds)}); run it again: {again}"
        fail_with(self._item, f"{outcome.failure}\n{where}", outcome.error or outcome.failure)

    # In the fork ----------------------------------------------------------------------

    def _outcome(self, test: Callable[..., Awaitable[None]], seed: int) -> Outcome:
        lines: list[bytes] = []
        outcome = Outcome("", "", lines)
        random.seed(seed)

        async def main(world: VirtualWorld) -> None:
            cluster = VirtualRocketMQ(world, self._spec, lines.append)
            outcome.queried = cluster.queried_groups
            cluster.declared_topics = tuple(self._topics)
            await cluster.start()
            await _make_topics(cluster, self._topics)
            outcome.began_us = world.clock.passed_ns() // 1_000
            try:
                with trio.fail_after(self._virtual_s_max), cluster.refusing_tcp_clients():
                    await test(virtual_cluster=cluster)
                if self._is_strict:
                    _check_misuses(lines)
            finally:
                outcome.failed_us = world.clock.passed_ns() // 1_000

        try:
            with checking_awaits():
                run_virtual(main, seed=seed)
        except pytest.skip.Exception as skipped:
            outcome.skipped = str(skipped) or "skipped"
        except NotAwaited as error:  # its frames are ours
            outcome.failure = outcome.error = f"NotAwaited: {error}"
        except BaseException:  # noqa: BLE001  # sent to the parent
            info = pytest.ExceptionInfo.from_current()
            hide_frames(info.value)
            outcome.failure = str(self._item.repr_failure(info))
            outcome.error = info.exconly()
        return outcome


@contextlib.contextmanager
def checking_awaits() -> Iterator[None]:
    """Raises ``NotAwaited`` at the end if a verb of the cluster was called without ``await``.

    Python only warns when such a coroutine is deleted.  An error of the block gets it as a note.
    """
    found: list[str] = []
    show = warnings.showwarning

    def take(message: Warning | str, category: type[Warning], *where: Any) -> None:  # noqa: ANN401  # as Python calls it
        named = NOT_AWAITED.search(str(message))
        if named is None or not hasattr(VirtualRocketMQ, named[1]):
            show(message, category, *where)
            return
        file, line = where[:2]
        found.append(f"{named[1]} was called without await at {os.path.basename(file)}:{line}")  # noqa: PTH119  # any text

    with warnings.catch_warnings():
        warnings.filterwarnings("always", message="coroutine .* was never awaited")
        warnings.showwarning = take  # type: ignore[assignment]
        try:
            yield
        except BaseException as error:
            gc.collect()
            if found:
                error.add_note(_not_awaited(found))
            raise
        gc.collect()
    if found:
        raise NotAwaited(_not_awaited(found))


def _not_awaited(found: list[str]) -> str:
    return f"{'; '.join(found)}: nothing happened; write await virtual_cluster.…"


NOT_AWAITED = re.compile(r"coroutine '(?:Virtual\w+)\.(\w+)' was never awaited")
_NOTED = b'"kind":"MisuseNoticed"'


class _Noted(msgspec.Struct):
    """A line of a journal with this fact."""

    fact: MisuseNoticed


def _check_misuses(lines: Iterable[bytes]) -> None:
    """Raises ``MisusesFound`` if brokers or clients have noted any."""
    noted = [msgspec.json.decode(line, type=_Noted).fact for line in lines if _NOTED in line]
    if noted:
        raise MisusesFound("\n".join(fact.sentence() for fact in noted))


def _queues(topics: Iterable[str] | Mapping[str, int]) -> dict[str, int]:
    try:
        return queues_by_topic(topics)
    except ValueError as error:
        raise pytest.UsageError(f"wrong options of a cluster: {error}") from None


def _spec(fields: dict[str, Any]) -> ClusterSpec:
    try:
        return checked_spec(None, ClusterFields(**fields))  # type: ignore[typeddict-item]
    except ValueError as error:
        raise pytest.UsageError(f"wrong options of a cluster: {error}") from None


async def _make_topics(cluster: VirtualRocketMQ, queues_of: Mapping[str, int]) -> None:
    if not queues_of:
        return

    async def make(process: ClientProcess) -> None:
        assert process.network is not None, "a virtual process has a network"
        async with admin_on(process.network, process.clock, cluster.namesrv) as admin:
            await create_topics(queues_of, admin)

    await cluster.start_client("topics", make).wait_ended()


def _seeds(given: dict[str, Any], only: str) -> range:
    try:
        first = int(only or given.get("seed", SEED))
        count = 1 if only else int(given.get("seeds", 1))
    except ValueError:
        raise pytest.UsageError(f"seed and seeds must be numbers: {only or given!r}") from None
    if not 1 <= count <= SEEDS_MAX:
        raise pytest.UsageError(f"seeds must be a number from 1 to {SEEDS_MAX}, not {count}")
    return range(first, first + count)


def _in_a_fork(work: Callable[[], Outcome]) -> Outcome:
    """The outcome of *work*, which runs in a fork of this process."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # os.fork with other threads
        pid = os.fork()
    if pid == 0:
        _send_outcome(work, writing)
    os.close(writing)
    try:
        data = _read_all(reading)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # its outcome has been read, or it took too long
        os.waitpid(pid, 0)
    if data is None:
        return Outcome(f"the run did not end within {REAL_S_MAX:g} s of real time", "", [])
    if not data:
        return Outcome("the process of the run ended without a result", "", [])
    return msgspec.msgpack.decode(data, type=Outcome)


def _send_outcome(work: Callable[[], Outcome], writing: int) -> NoReturn:
    """In the fork: send the outcome and exit, without running any more code of pytest."""
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(work()))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _read_all(reading: int) -> bytes | None:
    """All bytes up to the end of the pipe; None if it does not end within ``REAL_S_MAX``."""
    until_s, parts = time.monotonic() + REAL_S_MAX, list[bytes]()
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while poll.poll(max(0.0, until_s - time.monotonic()) * 1_000):
        if not (part := os.read(reading, READ_BYTES)):
            return b"".join(parts)
        parts.append(part)
    return None
