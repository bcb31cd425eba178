"""The CPU time of the report of a large journal, and the size of its page.

    python -m benchmarks.report [FACTS] [PAGE]

The journal is the run of docs/failures.md, repeated with later times and other offsets and
keys.  Prints the CPU seconds to read, to read and fold, to read, judge and fold, and to write,
and the page's size; writes the page to PAGE.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks.clusters import ROOT
from docs.generate import failure_run
from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.scenarios.report.page import write_page
from rocketmq_emulator.scenarios.report.report_data import read_and_judge, read_report_data

MOVED = {"offset": 5_000, "next_offset": 5_000, "position": 10_000_000}  # added in each repetition
KEYS_EACH = 65_537
T = TypeVar("T")


def main() -> None:
    facts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.jsonl"
        with journal.open("wb") as file:
            file.writelines(lines(facts))
        read_s, count = timed(lambda: sum(1 for _ in read_journals([journal])))
        folded_s, _ = timed(lambda: read_report_data(read_journals([journal])))
        judged_s, data = timed(lambda: read_and_judge(read_journals([journal])))
        written_s, page = timed(lambda: write_page(data, "benchmark"))
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(page)
    found = {
        "facts": count,
        "read_s": read_s,
        "read_and_fold_s": folded_s,
        "read_judge_and_fold_s": judged_s,
        "write_s": written_s,
        "page_mb": len(page) / 1e6,
        "bytes_a_fact": len(page) / count,
    }
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=2))


def timed(act: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of *act*, and its result."""
    began_s = time.process_time()
    found = act()
    return time.process_time() - began_s, found


def lines(count: int) -> Iterator[bytes]:
    """The lines of a journal of *count* facts."""
    command = [sys.executable, "-m", failure_run.__name__]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    data = [msgspec.json.decode(line) for line in run.stdout.splitlines()]
    last_us = max(entry["mono_us"] for entry in data) + 1_000
    seqs = max(entry["seq"] for entry in data)
    for number in range(count):
        repetition, place = divmod(number, len(data))
        entry = data[place]
        yield (
            msgspec.json.encode(
                {
                    **entry,
                    "seq": entry["seq"] + repetition * seqs,
                    "at_ms": entry["at_ms"] + repetition * last_us // 1_000,
                    "mono_us": entry["mono_us"] + repetition * last_us,
                    "fact": moved(entry["fact"], repetition),
                }
            )
            + b"\n"
        )


def moved(fact: dict[str, Any], repetition: int) -> dict[str, Any]:
    found = {
        name: value + repetition * MOVED[name] if name in MOVED else value
        for name, value in fact.items()
    }
    if key := fact.get("uniq_key"):
        found["uniq_key"] = f"{key[:-12]}{int(key[-12:], 16) + repetition * KEYS_EACH:012X}"
    return found


if __name__ == "__main__":
    main()
