"""Runs of one mutant after another, in a copy of the tree in which the mutant's file changes.

    python -m tools.power.mutant_runs   (in the copy: a line of JSON per job and per answer)

This process has loaded the original code, which makes the plans.  Each job has its own process,
whose runs load the changed code.  So a mutant costs only one start of an interpreter.  A limit of
processor time, which child processes inherit, ends endless loops.

A job without a mutant is ``{"seeds": [1, 2, …]}``: its answer has for each seed the verdict, the
rules that object, and a digest of the journal.  A job with a mutant is ``{"seeds": […], "healthy":
…}`` with that answer: its answer has the first objection, and the number of journals until then
that differ from those without the mutant.  The answer to ``{"seeds": […], "lines_of": [FILE, …]}``
has the lines that each seed executes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketmq_emulator.processes.roles import CONFIG_OF_ROLE, import_role
from rocketmq_emulator.scenarios.catalog.finding import weather_of
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from rocketmq_emulator.scenarios.sweeps.run_forks import warm_up
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from tools.power.bug_run import SHAPES

if TYPE_CHECKING:
    from _typeshed import TraceFunction

RELEASES = ("4.9.7", "5.3.3")  # of odd seeds, and of even seeds
CPU_S_MAX = 8  # of one process: a run takes 0.25 s, its parent process 1 s
RUN_S_MAX = 120.0
REASON_MAX = 300  # characters

Answer = dict[str, Any]


class SeedRun(NamedTuple):
    """One run, and a digest of its journal."""

    seed: int
    release: str
    row: RunResult
    journal: str

    @property
    def rules(self) -> list[str]:
        """The rules that object."""
        return sorted({each.checker for each in self.row.violations})

    @property
    def unmet(self) -> list[str]:
        """The expectations that are not met."""
        return [each.expected for each in self.row.unmet]


def main() -> None:
    for line in sys.stdin:
        print(_in_a_process_of_its_own(json.loads(line)), flush=True)


def _in_a_process_of_its_own(job: Answer) -> str:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            if "healthy" in job:  # only a mutant loops endlessly
                resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX + 5))
            with os.fdopen(theirs, "w") as output:
                json.dump(answered(job), output)
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text or json.dumps(_crashed("the process that starts runs ended"))


def answered(job: Answer) -> Answer:
    """The answer to one job."""
    try:
        if "lines_of" in job:
            return {str(seed): executed(seed, job["lines_of"]) for seed in job["seeds"]}
        runs = _runs(job["seeds"])
        return first_seen(runs, job["healthy"]) if "healthy" in job else _rows(runs)
    except Exception as error:  # noqa: BLE001  # a mutant may raise anything
        return _crashed(f"{type(error).__name__}: {error}")


def _rows(runs: Iterator[SeedRun]) -> Answer:
    """The verdict, the rules that object and the journal's digest, by seed."""
    return {
        str(run.seed): {"journal": run.journal, "rules": run.rules, "verdict": run.row.verdict}
        for run in runs
    }


def first_seen(runs: Iterator[SeedRun], healthy: Answer) -> Answer:
    """The first run with an objection or an error; seeds that fail without the mutant are skipped.

    An unmet expectation does not end the search; the first one is also in the answer.
    """
    answer: Answer = {"seed": None, "how": "", "differ": 0, "unmet": None}
    for run in runs:
        known = healthy[str(run.seed)]
        if known["verdict"] != "passed":
            continue
        seen = {"seed": run.seed, "release": run.release}
        answer["differ"] += run.journal != known["journal"]
        if run.rules:
            return answer | seen | {"how": "rule", "rules": run.rules}
        if run.unmet:
            answer["unmet"] = answer["unmet"] or {**seen, "expected": run.unmet}
        elif run.row.verdict == "error":
            return answer | seen | {"how": "error", "reason": run.row.reason[-REASON_MAX:]}
    return answer


def _crashed(reason: str) -> Answer:
    return {"seed": 1, "how": "error", "reason": reason[-REASON_MAX:], "differ": 0, "unmet": None}


def _runs(seeds: Iterable[int]) -> Iterator[SeedRun]:
    with RunPool(run_s_max=RUN_S_MAX) as fleet, tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        for seed in seeds:
            order = RunOrder(plan=_plan(seed), seed=seed, journal=str(journal), keeps_passed=True)
            journal.write_bytes(b"")
            (row,) = fleet.rows([order], jobs=1)
            yield SeedRun(seed, release_of(seed), row, _digest(journal, row.code_version))


def release_of(seed: int) -> str:
    """Odd seeds have the first release, even seeds the second."""
    return RELEASES[(seed - 1) % len(RELEASES)]


def _plan(seed: int) -> Plan:
    return weather_of({**SHAPES["small"], "release": release_of(seed), "seed": seed})


def _digest(journal: Path, code_version: str) -> str:
    """A digest of the journal without its code version."""
    text = journal.read_bytes().replace(code_version.encode(), b"")
    return hashlib.sha256(text).hexdigest()[:16]


@functools.cache
def _load_all() -> None:
    """Import all modules first, so that a run does not execute their definitions."""
    for role in CONFIG_OF_ROLE:
        import_role(role)
    warm_up()


def executed(seed: int, files: Iterable[str]) -> dict[str, list[int]]:
    """The lines of *files* that the run of *seed* executes; other lines have no effect on it."""
    _load_all()
    lines: dict[str, set[int]] = {str(Path(file).resolve()): set() for file in files}
    real = functools.cache(os.path.realpath)  # modules are loaded through a link

    def called(frame: FrameType, _event: str, _argument: object) -> TraceFunction | None:
        found = lines.get(real(frame.f_code.co_filename))
        return None if found is None else stepped(frame, "line", None)

    def stepped(frame: FrameType, event: str, _argument: object) -> TraceFunction:
        if event == "line":
            lines[real(frame.f_code.co_filename)].add(frame.f_lineno)
        return stepped

    sys.settrace(called)
    try:
        finished_run(_plan(seed), seed)
    finally:
        sys.settrace(None)
    return {file: sorted(lines[str(Path(file).resolve())]) for file in files}


if __name__ == "__main__":
    main()
