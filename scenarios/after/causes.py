"""The cause of a failure in three to six sentences, drawn from the journal's facts.

Two tables lead from a broken rule, or from a metric that has not the expected value, to the
function that draws its cause.  Such a function yields sentences in the order of cause and effect:
what happened first, what followed, what came out.  A rule without a function, or a journal without
the facts that its function needs, has no cause: then the facts speak for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from rocketmq_emulator.checks.judging.table import ALL, METRICS
from rocketmq_emulator.checks.rules.ownership import OwnerTime
from rocketmq_emulator.checks.rules.timing import DeliveryGap
from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.facts import Queue
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.acting_causes import (
    escaped_message,
    given_up,
    sent_again,
)
from rocketmq_emulator.scenarios.after.cause_journal import (
    SENTENCES_MAX,
    CauseJournal,
    CauseSubject,
)
from rocketmq_emulator.scenarios.after.delivery_causes import (
    delivery_gap,
    slow_delivery,
    worst_gap,
)
from rocketmq_emulator.scenarios.after.election_causes import wrong_election
from rocketmq_emulator.scenarios.after.message_causes import (
    after_power_loss,
    early_commit,
    late_wake,
    lost,
    out_of_order,
    repeats,
    unfinished,
)
from rocketmq_emulator.scenarios.after.ownership_causes import (
    longest_overlap,
    no_owner,
    ownership,
    refused_locks,
    two_owners,
)
from rocketmq_emulator.scenarios.after.rebalance_causes import (
    expired_queues,
    idle_members,
    late_pass,
    moves,
    queueless,
)
from rocketmq_emulator.scenarios.after.replica_causes import lost_with_master
from rocketmq_emulator.scenarios.after.send_causes import failed_sends
from rocketmq_emulator.scenarios.after.transaction_causes import (
    COUNTED,
    unsettled,
    wrong_transaction,
)
from rocketmq_emulator.scenarios.plan.plan import Expectation
from rocketmq_emulator.scenarios.plan.result import expected_text

SENTENCES_MIN = 3

DrawCause: TypeAlias = Callable[[CauseJournal, CauseSubject], Iterator[str]]

OF_RULES: Mapping[str, DrawCause] = {
    "lost": lost,
    "duplicates": repeats,
    "order": out_of_order,
    "commits": early_commit,
    "ownership": ownership,
    "locks": two_owners,
    "passes": late_pass,
    "pass_times": late_pass,
    "liveness": unfinished,
    "wakes": late_wake,
    "queues_are_pulled": unfinished,
    "transactions": wrong_transaction,
    "transaction_checks": wrong_transaction,
    "lost_with_masters": lost_with_master,
    "slave_logs": wrong_election,
    "one_master_an_epoch": wrong_election,
    "escapes": escaped_message,
}
OF_METRICS: Mapping[str, DrawCause] = {
    **dict.fromkeys(("overlap_s", "overlap_queue_s", "duplicates_two_owners"), two_owners),
    "startup_overlap_s": two_owners,
    **dict.fromkeys(("unowned_s", "unowned_queue_s", "starved_queues"), no_owner),
    "startup_unowned_s": no_owner,
    **dict.fromkeys(("backlog", "stuck", "unrest"), unfinished),
    **dict.fromkeys(("duplicates", "duplicates_handed_over", "duplicates_older_offsets"), repeats),
    **dict.fromkeys(("failed_sends", "maybe_stored", "failed_attempts"), failed_sends),
    **dict.fromkeys(("retried_sends", "unsafe_sends", "producer_failover_s"), failed_sends),
    **dict.fromkeys(("longest_send_ms", "send_ms_p99"), failed_sends),
    **dict.fromkeys(("delivery_gap_s", "startup_delivery_gap_s"), delivery_gap),
    **dict.fromkeys(("consumer_failover_s", "open_failover_s"), delivery_gap),
    **dict.fromkeys(("longest_deliver_ms", "deliver_ms_p99"), slow_delivery),
    **dict.fromkeys(("needless_moves", "moved_queues"), moves),
    **dict.fromkeys(("queueless_members", "skew_queues"), queueless),
    **dict.fromkeys(("hidden", "lost_with_power"), after_power_loss),
    **dict.fromkeys(("lost_with_masters", "not_copied", "only_at_slaves"), lost_with_master),
    "lag_at_death_bytes": lost_with_master,
    **dict.fromkeys(COUNTED, unsettled),
    **dict.fromkeys(("halves_skipped", "timers_given_up", "excused_given_up"), given_up),
    "escaped_again": sent_again,
    "idle_members": idle_members,
    "locks_refused": refused_locks,
    "expired_queues": expired_queues,
    "rebalance_gap_s": late_pass,
}
WORST: Mapping[str, Callable[[CauseJournal, str, str], DeliveryGap | OwnerTime | None]] = {
    **dict.fromkeys(("delivery_gap_s", "consumer_failover_s", "open_failover_s"), worst_gap),
    "overlap_s": longest_overlap,
}  # the time that a metric measures, which is the one that its cause is about
assert OF_RULES.keys() <= ALL.keys(), "every rule of the table is a checker"
assert OF_METRICS.keys() <= METRICS.keys(), "every metric of the table is a checker's"


class MetricCause(msgspec.Struct, frozen=True):
    """The cause of expectations that were not met: several may have one."""

    expected: tuple[str, ...]
    cause: tuple[str, ...]


def cause_of_violation(
    journal: CauseJournal,
    violation: Violation,
    evidence: Sequence[Entry],
    pair: tuple[str, Queue] | None,
) -> tuple[str, ...]:
    """The cause of *violation* of the group and queue *pair*; empty if there is no rule for it."""
    group, queue = ("", None) if pair is None else pair
    about = CauseSubject(
        group=group,
        queue=queue,
        what=violation.what,
        at_us=violation.mono_us,
        evidence=tuple(evidence),
    )
    return _drawn(OF_RULES.get(violation.checker), journal, about)


def causes_of_unmet(
    journal: CauseJournal, unmet: Sequence[Expectation], judgement: Judgement
) -> tuple[MetricCause, ...]:
    """The causes of the *unmet* expectations for which there is a rule.

    A value that is too low has none: it is about something that did not happen.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for expectation in unmet:
        metric, scope = expectation.metric, expectation.scope
        value = judgement.metrics.get(f"{metric}.{scope}" if scope else metric, 0.0)
        about = CauseSubject(
            metric=metric,
            scope=scope,
            group=scope if METRICS[metric].of == "group" else "",
            at_us=journal.end_us,
            metrics=judgement.metrics,
        )
        if value > expectation.bound and (cause := _drawn(OF_METRICS.get(metric), journal, about)):
            found.setdefault(cause, []).append(expected_text(expectation))
    return tuple(MetricCause(tuple(expected), cause) for cause, expected in found.items())


def _drawn(draw: DrawCause | None, journal: CauseJournal, about: CauseSubject) -> tuple[str, ...]:
    if draw is None:
        return ()
    sentences = tuple(islice(draw(journal, about), SENTENCES_MAX))
    return sentences if len(sentences) >= SENTENCES_MIN else ()
