"""A thousand ``kill -9`` of masters, slaves and controllers under load.

Each batch of kills is a pair of its own.  Outcomes are kept below ``.cache`` as they come, by the
commit: a run that was stopped goes on where it was, and none is done twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clusters import ROOT
from tests.durability.pair_kills import MODES
from tools.torture import Row

NAME = "masters, slaves and controllers killed under load"
KILLS_OF_BATCH = 25
BATCHES_OF_MODE = 14  # 350 kills of each mode
AT_ONCE = 4
BATCH_S_MAX = 900
KEPT = ROOT / ".cache" / "torture"


class Batch(NamedTuple):
    """Some kills of one pair."""

    mode: str
    release: str
    seed: int


def run() -> list[Row]:
    """A row for each mode: whether all promised messages survived where they were promised."""
    kept = KEPT / f"pair-kills-{_commit()}.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    known = _read(kept)
    wanted = [Batch(*mode, seed) for seed in range(1, BATCHES_OF_MODE + 1) for mode in MODES]
    with ThreadPoolExecutor(AT_ONCE) as threads, kept.open("a") as file:
        for batch, outcome in threads.map(_killed, [b for b in wanted if b not in known]):
            known[batch] = outcome
            file.write(json.dumps([*batch, outcome]) + "\n")
            file.flush()
    return [_row(mode, release, known) for mode, release in MODES]


def _row(mode: str, release: str, known: dict[Batch, dict[str, Any]]) -> Row:
    mine = [outcome for batch, outcome in known.items() if batch[:2] == (mode, release)]
    kills, promised = (sum(each[key] for each in mine) for key in ("kills", "promised"))
    lost = [text for each in mine for text in each["missing"]]
    what = f"{kills} × kill -9 of a pair, {mode} of {release}, {promised:,} promised messages"
    found = f"{len(lost)} lost: {lost[0]}" if lost else "nothing lost"
    reached = not lost and kills == KILLS_OF_BATCH * BATCHES_OF_MODE
    return Row(what, "no promised message lost", found, reached)


def _killed(batch: Batch) -> tuple[Batch, dict[str, Any]]:
    """The outcome of a batch; one that failed lost everything, with its last line."""
    command = [sys.executable, "-m", "tests.durability.pair_kills", *map(str, batch)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            ended = subprocess.run(
                [*command, str(KILLS_OF_BATCH), folder],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=BATCH_S_MAX,
                check=True,
            )
        except subprocess.SubprocessError as failed:
            said = str(getattr(failed, "stderr", "") or failed).strip().splitlines()[-1]
            return batch, {"kills": 0, "promised": 0, "missing": [f"the run failed: {said}"]}
    outcome: dict[str, Any] = json.loads(ended.stdout)
    return batch, outcome


def _read(kept: Path) -> dict[Batch, dict[str, Any]]:
    lines = kept.read_text().splitlines() if kept.exists() else []
    rows = map(json.loads, lines)
    return {Batch(*row[:3]): row[3] for row in rows if not _failed(row[3])}


def _failed(outcome: dict[str, Any]) -> bool:
    """Whether the run itself ended early: it is done again."""
    return bool(outcome["kills"] < KILLS_OF_BATCH)


def _commit() -> str:
    """The commit, and ``+`` if files have changed since."""
    command = ["git", "describe", "--always", "--dirty=+"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
