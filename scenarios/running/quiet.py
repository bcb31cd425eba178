"""Whether a run has become quiet: nothing is left to consume, and no queue changes hands."""

from __future__ import annotations

from scenarios.running.watch import Watch

CONSUMED_SETTLED_S = 2.0


def what_is_not_quiet(watch: Watch, now_us: int, settled_from_us: int, settled_s: float) -> str:
    """In words; empty when it is quiet.  Nothing settles before *settled_from_us*."""
    reasons = [
        f"{group} has {count} messages to consume" for group, count in watch.backlogs().items()
    ]
    reasons += [
        f"{node} waits for {count} queues that it gave up"
        for node, count in watch.given_up().items()
    ]
    if watch.delayed_count:
        reasons.append(f"{watch.delayed_count} messages wait for their retry or delay")
    if now_us - watch.consumed_us < CONSUMED_SETTLED_S * 1_000_000:
        reasons.append("messages were consumed just now")
    settling_s = settled_s - ((now_us - max(watch.queues_changed_us, settled_from_us)) / 1_000_000)
    if settling_s > 0:
        reasons.append(f"queues must stay with their owners for {settling_s:.0f} s more")
    return "; ".join(reasons)
