"""The demo's ledger: deliveries, losses and takeovers that the facts of a run prove."""

from __future__ import annotations

import msgspec

from rocketmq_emulator.cli.demo.command import account, next_steps
from rocketmq_emulator.cli.demo.ledger import Ledger, MemberEntry, read_entry
from rocketmq_emulator.cli.demo.run import queues_text
from rocketmq_emulator.cli.demo.timeline import DemoPlan, quick_plan
from rocketmq_emulator.cli.messages.lines import Counts, bodies, counted
from rocketmq_emulator.facts import (
    MessageConsumed,
    MessageSent,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SendFailed,
)
from rocketmq_emulator.protocol.messages.validation import MESSAGE_BYTES_MAX

A0, B0 = Queue("demo", "broker-a", 0), Queue("demo", "broker-b", 0)


def sent(key: str, at_ms: int = 0) -> MemberEntry:
    return MemberEntry(1, at_ms, "producer", MessageSent("demo", A0, 0, key, 1, 2, "SEND_OK"))


def consumed(
    key: str, at_ms: int, by: str = "consumer-a", queue: Queue = A0, ok=True
) -> MemberEntry:
    return MemberEntry(1, at_ms, by, MessageConsumed("readers", "demo", queue, 0, key, 0, ok))


def claimed(by: str, at_ms: int, *queues: Queue) -> MemberEntry:
    return MemberEntry(1, at_ms, by, QueuesClaimed("readers", queues))


def a_ledger(*lines: MemberEntry) -> Ledger:
    ledger = Ledger()
    for line in lines:
        ledger.read(line)
    return ledger


def test_what_was_acknowledged_and_not_consumed_waits() -> None:
    ledger = a_ledger(sent("1"), sent("2"), consumed("1", 5))
    assert ledger.undelivered == 1
    ledger.read(consumed("2", 9))
    assert ledger.undelivered == 0


def test_a_failed_consumption_is_none() -> None:
    assert a_ledger(sent("1"), consumed("1", 5, ok=False)).undelivered == 1


def test_a_second_delivery_is_a_duplicate_whoever_had_the_first() -> None:
    ledger = a_ledger(sent("1"), consumed("1", 5), consumed("1", 6, by="consumer-b"))
    assert (ledger.duplicates, ledger.undelivered) == (1, 0)


def test_what_was_stored_without_its_producer_knowing_is_no_loss() -> None:
    failed = MemberEntry(1, 3, "producer", SendFailed("demo", "9", 3, "no answer", True))
    ledger = a_ledger(failed, consumed("9", 4))
    assert (ledger.failed_sends, ledger.maybe_stored) == (1, 1)
    assert (ledger.unacknowledged, ledger.undelivered) == (1, 0)


def test_the_longest_gap_is_between_two_deliveries_of_one_queue() -> None:
    times = {"1": 100, "2": 150, "3": 900, "4": 950}
    ledger = a_ledger(*(consumed(key, at_ms) for key, at_ms in times.items()))
    assert ledger.queues[A0].longest_gap_ms == 750
    assert ledger.queues[A0].gap_began_ms == 150


def test_a_dead_consumers_queues_are_taken_over_and_read_after_some_time() -> None:
    ledger = a_ledger(claimed("consumer-b", 10, A0, B0), consumed("1", 20, by="consumer-b"))
    ledger.consumer_killed("consumer-b", 1_000)
    ledger.read(consumed("2", 999, by="consumer-b"))  # it was still in the pipe
    ledger.read(claimed("consumer-a", 1_040, A0))
    ledger.read(consumed("3", 1_300))
    taken, orphan = ledger.takeovers
    assert (taken.queue, taken.owner) == (A0, "consumer-a")
    assert (taken.owned_after_ms, taken.delivered_after_ms) == (40, 300)
    assert (orphan.queue, orphan.owner, orphan.owned_after_ms) == (B0, "", None)
    assert ledger.owners_of(B0) == ()


def test_a_queue_in_two_hands_stays_with_the_other_when_one_lets_go() -> None:
    ledger = a_ledger(claimed("consumer-a", 1, A0), claimed("consumer-b", 2, A0))
    assert ledger.owners_of(A0) == ("consumer-a", "consumer-b")
    ledger.read(MemberEntry(1, 3, "consumer-b", QueuesReleased("readers", (A0,), "not mine")))
    assert ledger.owners_of(A0) == ("consumer-a",)
    ledger.consumer_killed("consumer-b", 4)
    assert ledger.takeovers == []


def test_a_broker_is_back_for_good_with_the_first_delivery_from_it() -> None:
    ledger = a_ledger(consumed("1", 10, queue=B0))
    ledger.broker_killed("broker-b", 100)
    ledger.read(consumed("2", 120, queue=B0))  # the consumer had it before the kill
    ledger.broker_back(600)
    ledger.read(consumed("3", 700, queue=A0))
    assert not ledger.broker_resumed_ms
    ledger.read(consumed("4", 900, queue=B0))
    assert ledger.broker_resumed_ms == 900


def test_a_line_of_the_journal_is_read_as_it_was_written() -> None:
    line = claimed("consumer-a", 7, A0, B0)
    assert read_entry(msgspec.json.encode(line)) == line


def the_account(ledger: Ledger, counts: Counts, *, was_interrupted: bool = False) -> list[str]:
    return [line.plain for line in account(ledger, counts, was_interrupted=was_interrupted)]


def test_the_account_tells_losses_duplicates_and_takeovers_in_plain_words() -> None:
    ledger = a_ledger(claimed("consumer-b", 1, A0), sent("1"), sent("2"), consumed("1", 5))
    ledger.consumer_killed("consumer-b", 1_000)
    ledger.read(claimed("consumer-c", 1_250, A0))
    lines = the_account(ledger, Counts(sendable=2, empty=3, too_long=1))
    assert lines[0].endswith("taken over from consumer-b")
    assert lines[1].split(maxsplit=4)[-1] == "by consumer-c in 0.25 s, read in -"
    text = "2; not sent: 3 empty and 1 longer than 4 MiB"
    assert f"lines       {text}" in lines
    assert "lost        1" in lines


def test_nothing_is_called_lost_when_the_demo_was_stopped_early() -> None:
    ledger = a_ledger(sent("1"), sent("2"), sent("3"), consumed("1", 5))
    text = "\n".join(the_account(ledger, Counts(sendable=9), was_interrupted=True))
    assert "stopped early, 2 not yet delivered" in text
    assert "lost" not in text


def test_no_line_of_the_account_is_longer_than_a_terminal() -> None:
    ledger = a_ledger(claimed("consumer-b", 1, A0, B0), *(sent(str(n)) for n in range(2_000)))
    ledger.consumer_killed("consumer-b", 1_000)
    ledger.read(claimed("consumer-c", 91_250, A0))
    ledger.read(consumed("1", 181_250, "consumer-c"))
    ledger.broker_killed("broker-b", 1_000)
    ledger.broker_back(99_000)
    ledger.broker_resumed_ms = 131_000
    ledger.failed_sends = 12_345
    lines = the_account(ledger, Counts(sendable=1_000_000, empty=31_234, too_long=1))
    lines += [line.plain for line in next_steps(".venv/bin/rmqemu")]
    assert {line for line in lines if len(line) > 80} == set()


def test_what_waits_is_counted_by_the_queue_it_was_sent_to() -> None:
    ledger = a_ledger(sent("1"), sent("2"), consumed("1", 5))
    assert ledger.queues[A0].waiting == 1
    ledger.read(consumed("2", 9, queue=Queue("%RETRY%readers", "broker-b", 0)))
    assert ledger.queues[A0].waiting == 0
    ledger.read(consumed("3", 9))  # before its producer had the acknowledgement
    ledger.read(sent("3"))
    assert (ledger.queues[A0].waiting, ledger.undelivered) == (0, 0)


def test_queues_are_named_shortly() -> None:
    a2 = msgspec.structs.replace(A0, queue_id=2)
    assert queues_text([B0, A0, a2]) == "broker-a/0,2 broker-b/0"


def test_both_plans_kill_and_restart_while_lines_are_sent() -> None:
    for plan in (DemoPlan(), quick_plan()):
        times = (
            plan.kill_consumer_s,
            plan.kill_broker_s,
            plan.restart_broker_s,
            plan.send_until_s,
        )
        assert times == tuple(sorted(times))
        assert plan.send_until_s + plan.delivery_timeout_s < 100


def test_lines_are_their_bytes_without_their_ends_whatever_system_wrote_them() -> None:
    lines = [b"unix\n", b"windows\r\n", b"\n", b"\r\n", b" \n", b"none"]
    assert list(bodies(lines)) == [b"unix", b"windows", b"", b"", b" ", b"none"]
    assert counted(lines) == Counts(sendable=4, empty=2)


def test_a_line_may_be_as_long_as_a_message_and_no_longer() -> None:
    longest = bytes(MESSAGE_BYTES_MAX)
    assert counted([longest + b"\n", longest + b"x\n"]) == Counts(sendable=1, too_long=1)
