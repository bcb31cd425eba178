"""The number of attempts of a send, and its final result or error."""

from __future__ import annotations

import pytest

from rocketmq_emulator.client.producer.send_attempts import Attempts
from rocketmq_emulator.client.producer.send_kernel import (
    ErrorReply,
    NoMaster,
    SendResult,
    SendStatus,
    is_retryable,
)
from rocketmq_emulator.client.settings.config import ProducerConfig
from rocketmq_emulator.errors.call_errors import (
    BrokerRefused,
    MaybeStored,
    NeverSent,
    NoAnswer,
    NotStored,
    TimedOut,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import Release

REFUSED_CONNECTION = NeverSent("b:1", "refused")
TIMED_OUT = TimedOut("b:1", "no answer in time")


def some_attempts(count_max=3, **settings) -> Attempts:
    config = ProducerConfig(**{"group": "pg", **settings})
    return Attempts(config, "t", began_ms=1_000, timeout_ms=3_000, count_max=count_max)


def a_result(status=SendStatus.SEND_OK) -> SendResult:
    return SendResult(status, "KEY", "ID", MessageQueue("t", "b", 0), 5)


@pytest.mark.parametrize("release", ["4.9.8", "5.2.0", "5.3.0", "5.3.1"])
def test_which_error_codes_are_retried_at_another_broker(release) -> None:
    now = Release.parse(release)
    codes = {code for code in range(2000) if is_retryable(code, now)}
    expected = {1, 14, 16, 17, 204, 205}
    expected |= {2} if now >= Release(5, 3, 0) else set()
    expected |= {1500} if now >= Release(5, 3, 1) else set()
    assert codes == expected


def test_three_attempts_are_made_and_no_more() -> None:
    attempts = some_attempts()
    for broker in ("a", "b", "a"):
        assert not attempts.is_over
        attempts.record(broker, REFUSED_CONNECTION)
    assert attempts.is_over
    with pytest.raises(NotStored) as caught:
        attempts.result(1_007)
    assert caught.value.brokers == ("a", "b", "a")
    assert (caught.value.code, caught.value.took_ms) == (10001, 7)


def test_one_unanswered_attempt_makes_the_whole_send_uncertain() -> None:
    attempts = some_attempts()
    for outcome in (NoAnswer("b:1", "reset"), REFUSED_CONNECTION, NoMaster("b")):
        attempts.record("b", outcome)
    with pytest.raises(MaybeStored) as caught:
        attempts.result(1_000)
    assert caught.value.code == 10003


def test_a_refusal_that_is_not_retryable_ends_the_send() -> None:
    attempts = some_attempts()
    attempts.record("a", ErrorReply(13, "illegal"))
    assert attempts.is_over
    with pytest.raises(BrokerRefused, match="MESSAGE_ILLEGAL: illegal") as caught:
        attempts.result(1_000)
    assert caught.value.code == 13


def test_the_timeout_is_the_budget_of_the_whole_call() -> None:
    attempts = some_attempts()
    assert attempts.time_left_ms(1_000) == 3_000
    attempts.record("a", TIMED_OUT)
    assert attempts.time_left_ms(4_000) == 0
    assert attempts.is_over
    with pytest.raises(MaybeStored, match="out of time") as caught:
        attempts.result(4_000)
    assert (caught.value.code, caught.value.attempts) == (10002, 1)


def test_a_cap_for_each_attempt_leaves_time_for_the_next() -> None:
    attempts = some_attempts(send_timeout_ms_per_attempt=500)
    assert attempts.time_left_ms(1_000) == 500
    attempts.record("a", TIMED_OUT)
    assert attempts.time_left_ms(1_500) == 500
    attempts.record("b", TIMED_OUT)
    assert attempts.time_left_ms(2_000) == 2_000


def test_a_status_that_is_not_ok_is_returned_all_the_same() -> None:
    attempts = some_attempts()
    attempts.record("a", a_result(SendStatus.FLUSH_DISK_TIMEOUT))
    assert attempts.is_over
    assert attempts.result(1_000).status is SendStatus.FLUSH_DISK_TIMEOUT


def test_a_status_that_is_not_ok_may_be_retried_and_is_the_result() -> None:
    attempts = some_attempts(retry_another_broker_when_not_store_ok=True)
    attempts.record("a", a_result(SendStatus.SLAVE_NOT_AVAILABLE))
    assert not attempts.is_over
    attempts.record("b", ErrorReply(13, "illegal"))
    assert attempts.is_over
    assert attempts.result(1_000).status is SendStatus.SLAVE_NOT_AVAILABLE


def test_a_millisecond_is_enough_for_an_attempt_and_none_is_not() -> None:
    attempts = some_attempts()
    assert attempts.time_left_ms(3_999) == 1
    assert not attempts.is_over
    assert attempts.time_left_ms(4_000) == 0
    assert attempts.is_over


def test_a_cap_of_nothing_is_a_cap_and_a_negative_one_is_none() -> None:
    assert some_attempts(send_timeout_ms_per_attempt=0).time_left_ms(1_000) == 0
    assert some_attempts(send_timeout_ms_per_attempt=-1).time_left_ms(1_000) == 3_000
