"""The tables of docs/healthy.md: objections by batch and rule, and damage that breaks no rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rocketmq_emulator.checks.judging.table import CHECKERS, METRICS
from tools.healthy.batches import BATCHES
from tools.healthy.records import Record

PAGE = Path(__file__).resolve().parents[2] / "docs" / "healthy.md"
BEGIN, END = "<!-- written by make healthy -->", "<!-- end of what make healthy wrote -->"


def write(records: Mapping[str, Record]) -> None:
    """Replace the generated part of the page."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{text_of(records)}\n{END}{tail}")


def text_of(records: Mapping[str, Record]) -> str:
    """The number of runs, and the three tables."""
    known = {name: records[name] for name in BATCHES if name in records}
    runs = sum(record.runs for record in known.values())
    facts = sum(record.facts for record in known.values())
    failed = {
        (name, seed)
        for name, record in known.items()
        for seeds in (*record.objections.values(), *record.unmet.values(), *record.errors.values())
        for seed in seeds
    }
    wanted = sum(batch.seeds for batch in BATCHES.values())
    lines = [
        (
            f"{runs:,} of {wanted:,} runs were made, with {facts:,} facts; "
            f"{len(failed)} of them did not pass."
        ),
        "",
        *_batches(known),
        "",
        *_rules(known),
        "",
        *_let_off(known),
    ]
    return "\n".join(lines) + "\n"


def _batches(known: Mapping[str, Record]) -> list[str]:
    lines = ["| batch | seeds | facts | objections, by rule (seeds) |", "|---|---|---|---|"]
    for name, record in known.items():
        found = {**record.objections, **record.unmet, **record.errors}
        text = "; ".join(f"{rule}: {_seeds(seeds)}" for rule, seeds in sorted(found.items()))
        lines.append(f"| {name} | 1..{record.runs} | {record.facts:,} | {text or 'none'} |")
    return lines


def _seeds(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))


def _rules(known: Mapping[str, Record]) -> list[str]:
    tried: Counter[str] = Counter()
    objected: Counter[str] = Counter()
    for record in known.values():
        tried.update(record.tried)
        objected.update({rule: len(seeds) for rule, seeds in record.objections.items()})
    lines = ["| rule | times it could object | runs it objected to |", "|---|---|---|"]
    lines += [f"| `{rule}` | {tried[rule]:,} | {objected[rule]} |" for rule in CHECKERS]
    return lines


def _let_off(known: Mapping[str, Record]) -> list[str]:
    counts: Counter[str] = Counter()
    for record in known.values():
        counts.update(record.let_off)
    lines = ["| damage that breaks no rule | count | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {count:,} | {METRICS[name].sentence if name in METRICS else ''} |"
        for name, count in sorted(counts.items())
    ]
    return lines
