"""Facts per second into Spark tables: runs of FACTS facts, and of 10 and 100 times as many.

python -m benchmarks.tables [FACTS]   # wall seconds; the start of Spark is measured separately

One journal with one run is the hardest to parallelize.  The driver has DRIVER_MEMORY.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.judging import a_minute, many
from rocketmq_emulator.facts.journal import encode_entry
from rocketmq_emulator.pipeline.session import spark_session
from rocketmq_emulator.pipeline.tables.folder import TableFolder

FACTS = 20_000  # times 1, 10 and 100: up to 2 million
FACTORS = (1, 10, 100)
CORES = 2
DRIVER_MEMORY = "2g"
BYTES_AT_ONCE = 1 << 24


def main(facts: int) -> dict[str, Any]:
    began = time.monotonic()
    spark = spark_session("benchmark", CORES, {"spark.driver.memory": DRIVER_MEMORY})
    spark.range(1).count()
    found: dict[str, Any] = {"spark_start_s": round(time.monotonic() - began, 1)}
    with tempfile.TemporaryDirectory() as name:
        _measured(Path(name), "warm", facts)  # compiles code, loads classes
        for factor in FACTORS:
            found |= _measured(Path(name), f"x{factor}", facts * factor)
    spark.stop()
    return found


def _measured(folder: Path, name: str, facts: int) -> dict[str, Any]:
    journal = folder / f"{name}.jsonl"
    _write(journal, facts)
    tables = TableFolder(folder / name)
    bronze_s = _timed(lambda: tables.add([journal]))
    gold_s = _timed(tables.make_all)
    if (found := tables.runs()[0].facts) != facts:
        raise RuntimeError(f"{found} of {facts} facts are in the tables")
    megabytes = journal.stat().st_size / 1e6
    journal.unlink()
    return {
        f"{name}_facts": facts,
        f"{name}_megabytes": round(megabytes),
        f"{name}_to_bronze_s": round(bronze_s, 1),
        f"{name}_to_gold_s": round(gold_s, 1),
        f"{name}_facts_per_s": round(facts / (bronze_s + gold_s)),
    }


def _write(path: Path, facts: int) -> None:
    with path.open("wb", BYTES_AT_ONCE) as file:
        for entry in many(a_minute(), facts):
            file.write(encode_entry(entry))


def _timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if sys.argv[1:] else FACTS), indent=2))
