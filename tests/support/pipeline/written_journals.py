"""Journals of a few facts, written as the emulator writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rocketmq_emulator.facts import Fact, MessageStored, Queue, RunStarted
from rocketmq_emulator.facts.journal import Entry, encode_entry

QUEUE = Queue("orders", "broker-a", 0)


def a_start(seed: int = 1, **changed: Any) -> RunStarted:
    known: dict[str, Any] = {
        "scenario": "storm",
        "plan": "{}",
        "parameters": '{"members":3}',
        "seed": seed,
        "world": "virtual",
        "release": "4.9.7",
        "code_version": "1",
    }
    return RunStarted(**(known | changed))


def stored(offset: int, queue: Queue = QUEUE) -> MessageStored:
    return MessageStored(queue, offset, offset * 100, f"key-{offset}", 100)


def entries(*facts: tuple[int, str, Fact]) -> list[Entry]:
    """Entries of *facts*, each (microseconds, node, fact)."""
    seqs: dict[str, int] = {}
    found = []
    for mono_us, node, fact in facts:
        seqs[node] = seqs.get(node, 0) + 1
        at_ms = 1_700_000_000_000 + mono_us // 1_000
        found.append(Entry(seqs[node], at_ms, mono_us, node, fact))
    return found


def write(path: Path, written: Iterable[Entry]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(encode_entry, written)))
    return path


def a_journal(path: Path, seed: int = 1, messages: int = 2) -> Path:
    """The journal of one run, in which the broker stored so many *messages*."""
    facts: list[tuple[int, str, Fact]] = [(0, "world", a_start(seed))]
    facts += [(1_000 * offset, "broker-a", stored(offset)) for offset in range(messages)]
    return write(path, entries(*facts))
