"""Causes of what is lost, or only away, with a master: what its slaves had not copied.

A master dies with its log up to some position, and each slave has it up to another.  What lies
between them was copied too late: so the sentences name both, and the faults that held the copy up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rocketmq_emulator.checks.state.broker_roles import SLAVE
from rocketmq_emulator.facts import (
    LogCopied,
    MessageSent,
    MessageStored,
    NodeKilled,
    PowerLost,
    StoreOpened,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.cause_journal import CauseJournal, CauseSubject, seconds
from rocketmq_emulator.scenarios.descriptions.sentences import many

LAG_US = 30_000_000  # before the death: faults that may have held up the copy


class MasterDeath(NamedTuple):
    """*end* of its log, *kept* of it after the death, *slave* with the longest copy, *copied*."""

    entry: Entry
    master: str
    end: int
    kept: int
    slave: str
    copied: int


def lost_with_master(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The death with the largest lag: where the logs ended, why, and which messages that was."""
    deaths = [each for each in _deaths(journal) if each.entry.mono_us <= about.at_us]
    if about.scope:
        deaths = [each for each in deaths if each.master == about.scope]
    if not deaths:
        return
    death = max(deaths, key=lambda each: each.end - each.copied)
    how = "lost power" if isinstance(death.entry.fact, PowerLost) else "was killed"
    at_us = death.entry.mono_us
    yield (
        f"{death.master} {how} at {seconds(at_us)} with {death.end:,} bytes in its log; the best "
        f"of its slaves, {death.slave}, had copied {death.copied:,}: a lag of "
        f"{max(0, death.end - death.copied):,} bytes."
    )
    yield _promise(journal, death)
    yield from journal.faults({death.master, death.slave}, at_us - LAG_US, at_us - 1)
    yield from _messages(journal, death)


def _deaths(journal: CauseJournal) -> Iterator[MasterDeath]:
    for entry, lost in journal.of(PowerLost):
        yield from _death(journal, entry, entry.node, (lost.end_position, lost.kept_position))
    for entry, killed in journal.of(NodeKilled):
        yield from _death(journal, entry, killed.node, None)


def _death(
    journal: CauseJournal, entry: Entry, master: str, ends: tuple[int, int] | None
) -> Iterator[MasterDeath]:
    """The death of *master* if it has slaves; *ends*: of its log, and of what is left of it."""
    copied: dict[str, int] = {}
    for copy, fact in journal.of(LogCopied):
        match = SLAVE.fullmatch(copy.node)
        if match and match[1] == master and copy.mono_us <= entry.mono_us:
            copied[copy.node] = fact.position
    if not copied:
        return
    if ends is None:
        stored = [
            fact.position + fact.size_bytes
            for at, fact in journal.of(MessageStored)
            if at.node == master and at.mono_us <= entry.mono_us
        ]
        ends = (stored[-1], stored[-1]) if stored else (0, 0)
    slave = max(copied, key=lambda name: copied[name])
    yield MasterDeath(entry, master, *ends, slave, copied[slave])


def _promise(journal: CauseJournal, death: MasterDeath) -> str:
    awaited = 0
    for entry, fact in journal.of(StoreOpened):
        if entry.node == death.master and entry.mono_us <= death.entry.mono_us:
            awaited = fact.slaves_awaited
    if not awaited:
        return "It acknowledges messages without waiting for a slave, so no copy was promised."
    return f"It acknowledges messages with SEND_OK when {many(awaited, 'slave')} reported them."


def _messages(journal: CauseJournal, death: MasterDeath) -> Iterator[str]:
    """How many acknowledged messages lie beyond the copy, and how many of them are lost."""
    acknowledged = {
        (fact.queue, fact.offset)
        for entry, fact in journal.of(MessageSent)
        if entry.mono_us <= death.entry.mono_us
    }
    beyond = [
        fact
        for entry, fact in journal.of(MessageStored)
        if entry.node == death.master
        and entry.mono_us <= death.entry.mono_us
        and fact.position + fact.size_bytes > death.copied
        and (fact.queue, fact.offset) in acknowledged
    ]
    if not beyond:
        yield "Every message that it had acknowledged was in the log of that slave."
        return
    lost = [fact for fact in beyond if fact.position + fact.size_bytes > death.kept]
    yield (
        f"{many(len(beyond), 'message')} that it had acknowledged had not been copied, from "
        f"{beyond[0].uniq_key} at byte {beyond[0].position:,} on; {len(lost)} of them are not in "
        "its own log after that either."
    )
