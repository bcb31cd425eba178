"""How long the report of a large journal takes, and how large its page is.

    python -m benchmarks.report [FACTS] [PAGE]

The journal is the failure story of docs/failures.md again and again: later, and with other
offsets and keys.  Prints real and processor seconds to read and judge, to fold and write, and
the page's size; leaves the page at PAGE.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.clusters import ROOT
from docs.generate import failure_story
from emulator.checks.reading import read_journals
from scenarios.report.page import write_page
from scenarios.report.story import read_and_judge, read_story

MOVED = {"offset": 5_000, "next_offset": 5_000, "position": 10_000_000}  # by each repetition
KEYS_EACH = 65_537


def main() -> None:
    facts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.jsonl"
        with journal.open("wb") as file:
            file.writelines(lines(facts))
        with Clock("read"):
            count = sum(1 for _ in read_journals([journal]))
        with Clock("read and fold"):
            read_story(read_journals([journal]))
        with Clock("read, judge and fold"):
            story = read_and_judge(read_journals([journal]))
        with Clock("write"):
            page = write_page(story, "benchmark")
    print(f"{count:,} facts: {len(page) / 1e6:.1f} MB, {len(page) / count:.1f} bytes a fact")
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(page)


class Clock:
    """Prints how long its block took."""

    def __init__(self, title: str) -> None:
        self.title = title

    def __enter__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        real_s, own_s = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        print(f"{self.title}: {real_s:.1f} s, of the processor {own_s:.1f} s")


def lines(count: int) -> Iterator[bytes]:
    """A journal of so many facts."""
    command = [sys.executable, "-m", failure_story.__name__]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    story = [msgspec.json.decode(line) for line in run.stdout.splitlines()]
    last_us = max(entry["mono_us"] for entry in story) + 1_000
    seqs = max(entry["seq"] for entry in story)
    for number in range(count):
        repetition, place = divmod(number, len(story))
        entry = story[place]
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
