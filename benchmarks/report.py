"""The CPU time of the report of a large journal, and the size of its page.

    python -m benchmarks.report [FACTS] [PAGE]

The journal is the run of docs/failures.md, repeated with later times and other keys.  Each
repetition stores its messages behind those of the one before, without a gap: offsets that no
broker ever stored would be holes, at which checkers look again at every commit.

Prints the CPU seconds to read, to read and fold, to read, judge and fold, and to write, and the
page's size; writes the page to PAGE.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks.clusters import ROOT
from docs.generate import failure_run
from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.scenarios.report.page import write_page
from rocketmq_emulator.scenarios.report.report_data import read_and_judge, read_report_data

IN_QUEUE = ("offset", "next_offset")  # fields that grow with what their queue has stored
IN_LOG = ("position", "flushed_position", "kept_position", "end_position")  # … their broker
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
    for entry in islice(repeated(data), count):
        yield msgspec.json.encode(entry) + b"\n"


def repeated(data: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The entries of the run *data*, again and again: one run that never ends."""
    last_us = max(entry["mono_us"] for entry in data) + 1_000
    seqs = max(entry["seq"] for entry in data)
    ends = _Ends(data)
    for repetition in itertools.count():
        for entry in data:
            yield {
                **entry,
                "seq": entry["seq"] + repetition * seqs,
                "at_ms": entry["at_ms"] + repetition * last_us // 1_000,
                "mono_us": entry["mono_us"] + repetition * last_us,
                "fact": ends.moved(entry, repetition),
            }


class _Ends:
    """Where the queues and the logs of a run end, without what its brokers lost."""

    def __init__(self, data: list[dict[str, Any]]) -> None:
        kept: dict[str, list[dict[str, Any]]] = {}
        self._log: dict[str, int] = {}
        for entry in data:
            broker, fact = entry["node"], entry["fact"]
            if fact["kind"] == "MessageStored":
                kept.setdefault(broker, []).append(fact)
                self._log[broker] = fact["position"] + fact["size_bytes"]
            elif fact["kind"] == "PowerLost" and broker in kept:
                end = self._log[broker] = fact["kept_position"]
                kept[broker] = [each for each in kept[broker] if each["position"] < end]
        stored = [each for facts in kept.values() for each in facts]
        self._queue = {_name(each["queue"]): each["offset"] + 1 for each in stored}

    def moved(self, entry: dict[str, Any], repetition: int) -> dict[str, Any]:
        """The fact of *entry* in this *repetition*, behind everything stored before it."""
        fact, log = dict(entry["fact"]), self._log.get(entry["node"], 0)
        for names, end in ((IN_QUEUE, self._end_of(fact.get("queue"))), (IN_LOG, log)):
            fact |= {name: fact[name] + repetition * end for name in names if name in fact}
        if offsets := fact.get("offsets"):  # of the claimed queues, in their order
            ends = map(self._end_of, fact["queues"])
            fact["offsets"] = [
                offset + repetition * end if offset >= 0 else offset
                for offset, end in zip(offsets, ends, strict=True)
            ]
        if key := fact.get("uniq_key"):
            fact["uniq_key"] = f"{key[:-12]}{int(key[-12:], 16) + repetition * KEYS_EACH:012X}"
        return fact

    def _end_of(self, queue: dict[str, Any] | None) -> int:
        return self._queue.get(_name(queue), 0) if queue else 0


def _name(queue: dict[str, Any]) -> tuple[str, str, int]:
    return queue["topic"], queue["broker"], queue["queue_id"]


if __name__ == "__main__":
    main()
