"""The verdict of ``judge`` in words: clients, broken rules with their frames, what was judged."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from emulator.checks.servers.frames import SeenFrame
from emulator.checks.servers.table import FOREIGN
from emulator.checks.servers.verdict import BrokenRule, SdkClient, SdkVerdict
from emulator.cli.columns import clean

WIDTH_MAX = 100
INDENT = "    "


def verdict_lines(verdict: SdkVerdict, width: int) -> Iterator[str]:
    """Lines no wider than *width*, as far as names let it."""
    width = min(width, WIDTH_MAX)
    count = len(verdict.clients)
    told = f"{count} consumer{'s' * (count != 1)}, {verdict.fact_count} facts"
    yield f"{told} in {verdict.seconds:.1f} s"
    for client in verdict.clients:
        yield from _folded(_client(client, verdict), width, "  ")
    for rule in verdict.broken:
        yield ""
        yield from _rule(rule, width)
    yield ""
    yield from _missing(verdict, width)
    yield from _coverage(verdict, width)


def _client(client: SdkClient, verdict: SdkVerdict) -> str:
    groups = ", ".join(f"{group} ({how})" for group, how in client.groups.items())
    broken = sum(rule.client == client.client for rule in verdict.broken)
    said = f"breaks {broken} rule{'s' * (broken != 1)}" if broken else "breaks no rule"
    who = f"{client.client}, {client.language} {client.version}"
    return f"{who}, {client.request_count} requests, {groups}: {said}"


def _rule(rule: BrokenRule, width: int) -> Iterator[str]:
    numbers = " and ".join(str(number) for number in rule.invariants)
    times = f"{rule.count} time{'s' * (rule.count != 1)}"
    yield f"{rule.monitor} (client invariant {numbers}), {times}"
    yield from _folded(f"who: {rule.client}", width)
    yield from _folded(f"what: {rule.what}", width)
    yield from _folded(f"rule: {rule.rule}", width)
    start_us = min((frame.mono_us for frame in rule.frames), default=rule.mono_us)
    for frame in rule.frames:
        yield from _folded(_frame(frame, start_us), width)


def _frame(frame: SeenFrame, start_us: int) -> str:
    code = f" ({frame.code})" if frame.code else ""
    opaque = "" if frame.opaque is None else f" opaque {frame.opaque}"
    peer = f" from {frame.peer}" if frame.peer else ""
    fields = " ".join(f"{name}={value}" for name, value in frame.fields.items())
    then = f" → {frame.then}" if frame.then else ""
    at_s = (frame.mono_us - start_us) / 1_000_000
    return f"+{at_s:.3f} s {frame.server}: {frame.request}{code}{opaque}{peer} {fields}{then}"


def _missing(verdict: SdkVerdict, width: int) -> Iterator[str]:
    for text in verdict.incomplete:
        yield from _folded(f"not whole: {text}", width, "")
    if count := verdict.doubtful_count:
        text = f"{count} objection{'s' * (count > 1)} left out: what is missing may explain them"
        yield from _folded(text, width, "")


def _coverage(verdict: SdkVerdict, width: int) -> Iterator[str]:
    numbers = sorted({number for name in verdict.judged for number in FOREIGN[name].invariants})
    listed = ", ".join(map(str, numbers)) or "none"
    yield from _folded(f"judged: client invariants {listed} (docs/invariants.md)", width, "")
    for name, why in verdict.not_judged.items():
        yield from _folded(f"not judged: {name}: {why}", width, "")


def _folded(text: str, width: int, indent: str = INDENT) -> list[str]:
    more = indent + "  "
    return wrap(clean(text), width, initial_indent=indent, subsequent_indent=more)
