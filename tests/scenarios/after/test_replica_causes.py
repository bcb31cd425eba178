"""Why messages are lost with their master: the lag of its slave at its death, in bytes."""

from __future__ import annotations

import msgspec

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.facts import LogCopied, NodeKilled, PowerLost, StoreOpened
from rocketmq_emulator.scenarios.after.cause_journal import CauseJournal
from rocketmq_emulator.scenarios.after.causes import causes_of_unmet
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.plan import Expectation
from rocketmq_emulator.scenarios.running.virtual_run import finished_run


def cause_of(metric: str, **parameters: bool) -> tuple[list, tuple[str, ...]]:
    plan = load("acknowledged_messages_die_with_their_master", parameters)
    _, entries = finished_run(msgspec.structs.replace(plan, expect=()), 1)
    unmet = Expectation(metric=metric, operator="==", bound=0)
    found = causes_of_unmet(CauseJournal(entries), (unmet,), judge(entries))
    return entries, found[0].cause if found else ()


def test_the_cause_names_the_lag_in_bytes_and_what_held_it_up() -> None:
    entries, cause = cause_of("lost_with_masters")
    (lost,) = [each for each in entries if isinstance(each.fact, PowerLost)]
    copied = [
        each.fact.position
        for each in entries
        if isinstance(each.fact, LogCopied) and each.mono_us <= lost.mono_us
    ][-1]
    lag = lost.fact.end_position - copied
    assert lag > 5_000
    text = " ".join(cause)
    assert f"broker-a-1, had copied {copied:,}: a lag of {lag:,} bytes" in text
    assert "without waiting for a slave, so no copy was promised" in text
    assert "lag broker-a-1" in text
    assert "24 of them are not in its own log" in text


def test_a_master_that_waits_has_a_cause_for_its_lag_and_no_lost_message() -> None:
    entries, cause = cause_of("lag_at_death_bytes", waits=True)
    opened = [each.fact for each in entries if isinstance(each.fact, StoreOpened)]
    assert opened[0].slaves_awaited == 1
    text = " ".join(cause)
    assert "SEND_OK when 1 slave reported them" in text
    assert "Every message that it had acknowledged was in the log of that slave" in text
    assert not [each for each in entries if isinstance(each.fact, NodeKilled)]
