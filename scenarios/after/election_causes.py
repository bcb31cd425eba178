"""Causes of violations after elections: the elected broker, the time, the reason, the logs.

The causes are drawn from the facts of controllers and of role changes, of the broker name of the
violation; the last election before it is the one that counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_emulator.checks.state.broker_roles import name_of
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    EpochsCompared,
    LogTruncated,
    MasterElected,
    ReplicaGone,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.cause_journal import CauseJournal, CauseSubject, seconds

SHOWN_MAX = 4


def wrong_election(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The last elections of the name, the roles of its brokers, and the truncated bytes."""
    name = _name(about)
    yield from _elections(journal, name, about.at_us)
    roles = [
        (entry, fact)
        for entry, fact in journal.of(BrokerRoleChanged)
        if name_of(entry.node) == name and entry.mono_us <= about.at_us
    ]
    for entry, fact in roles[-SHOWN_MAX:]:
        yield (
            f"{entry.node} took the role {fact.role} of epoch {fact.master_epoch} at "
            f"{seconds(entry.mono_us)}."
        )
    yield from _logs(journal, name, about.at_us)


def _name(about: CauseSubject) -> str:
    """The broker name of the node at fault."""
    nodes = [entry.node for entry in about.evidence]
    return name_of(nodes[-1] if nodes else about.scope)


def _elections(journal: CauseJournal, name: str, until_us: int) -> Iterator[str]:
    gone: Entry | None = None
    reason = ""
    for entry, lost in journal.of(ReplicaGone):
        if lost.broker == name and entry.mono_us <= until_us:
            gone, reason = entry, lost.reason
    elected = [
        (entry, fact)
        for entry, fact in journal.of(MasterElected)
        if fact.broker == name and entry.mono_us <= until_us
    ]
    for entry, fact in elected[-SHOWN_MAX:]:
        why = ""
        if gone is not None and gone.mono_us <= entry.mono_us:
            why = f"; a broker had gone at {seconds(gone.mono_us)}: {reason}"
        yield (
            f"{entry.node} elected broker {fact.broker_id} of {name} in epoch "
            f"{fact.master_epoch} at {seconds(entry.mono_us)}{why}."
        )


def _logs(journal: CauseJournal, name: str, until_us: int) -> Iterator[str]:
    """The last comparison of epochs of each slave, and the bytes that it truncated."""
    for entry, found in list(journal.of(EpochsCompared))[-SHOWN_MAX:]:
        if name_of(entry.node) == name and entry.mono_us <= until_us:
            yield (
                f"{entry.node} compared epochs at {seconds(entry.mono_us)}: its own log, of "
                f"epochs {found.epochs}, ends at byte {found.position:,}, its master's, of epochs "
                f"{found.master_epochs}, at {found.master_end:,}."
            )
    cuts = [
        entry
        for entry, _ in journal.of(LogTruncated)
        if name_of(entry.node) == name and entry.mono_us <= until_us
    ]
    if not cuts:
        yield f"No broker of {name} truncated its log."
