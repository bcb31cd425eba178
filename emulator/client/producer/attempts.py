"""What one synchronous send has tried so far, and what follows from it.

The timeout is the budget of the whole call.  A refused connection costs milliseconds
and leaves time for the retries; a broker that hangs eats all of it, so by default a
silent broker is *not* retried elsewhere.

Upstream: DefaultMQProducerImpl.sendDefaultImpl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.client.errors import (
    BrokerRefused,
    ClientErrorCode,
    MaybeStored,
    NotStored,
    SendError,
)
from emulator.client.producer.send_result import NoMaster, Outcome, Refused, SendResult
from emulator.net.errors import NeverSent, RemoteError, TimedOut
from emulator.releases import BUSY_IS_RETRYABLE, GO_AWAY_IS_RETRYABLE, Release
from protocol.codes import ResponseCode, response_name

if TYPE_CHECKING:
    from emulator.client.config import ProducerConfig


_RETRYABLE = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)


def is_retryable(code: int, release: Release) -> bool:
    """Whether another broker is asked after this answer.

    Upstream: DefaultMQProducer.retryResponseCodes.
    """
    if code == ResponseCode.SYSTEM_BUSY:
        return release >= BUSY_IS_RETRYABLE
    if code == ResponseCode.GO_AWAY:
        return release >= GO_AWAY_IS_RETRYABLE
    return code in _RETRYABLE


class Attempts:
    """One send's attempts: ask ``time_left_ms``, try, tell what came of it, until ``is_over``."""

    def __init__(
        self, config: ProducerConfig, topic: str, began_ms: int, timeout_ms: int, count_max: int
    ) -> None:
        self.brokers: list[str] = []
        self.maybe_stored = False
        self.is_over = False
        self._config = config
        self._release = config.rules
        self._topic = topic
        self._began_ms = began_ms
        self._timeout_ms = timeout_ms
        self._count_max = count_max
        self._result: SendResult | None = None
        self._last: Outcome | None = None
        self._out_of_time = False

    @property
    def last_broker(self) -> str | None:
        return self.brokers[-1] if self.brokers else None

    def time_left_ms(self, now_ms: int) -> int:
        """For the next attempt; 0 when the whole call has no more."""
        left_ms = self._timeout_ms - (now_ms - self._began_ms)
        if left_ms <= 0:
            self._out_of_time = self.is_over = True
            return 0
        cap_ms = self._config.send_timeout_ms_per_attempt
        another_follows = len(self.brokers) + 1 < self._count_max
        return min(left_ms, cap_ms) if cap_ms >= 0 and another_follows else left_ms

    def heard(self, broker: str, outcome: Outcome) -> None:
        """What an attempt at *broker* came to."""
        self.brokers.append(broker)
        self._last = outcome
        if isinstance(outcome, SendResult):
            self._result = outcome
            retry = self._config.retry_another_broker_when_not_store_ok and not outcome.is_ok
        elif isinstance(outcome, Refused):
            retry = is_retryable(outcome.code, self._release)
        else:
            retry = True
            self.maybe_stored |= isinstance(outcome, RemoteError) and not outcome.definite
        self.is_over = not retry or len(self.brokers) >= self._count_max

    def took_ms(self, now_ms: int) -> int:
        return now_ms - self._began_ms

    def result(self, now_ms: int) -> SendResult:
        """The last result there was, or raises why there is none."""
        if self._result is not None:
            return self._result
        raise self._error(self.took_ms(now_ms))

    def _error(self, took_ms: int) -> SendError:
        return failure(
            self._topic,
            self.brokers,
            None if self._out_of_time else self._last,
            took_ms,
            release=self._release,
            maybe_stored=self.maybe_stored,
        )


def failure(
    topic: str,
    brokers: Sequence[str],
    last: Outcome | None,
    took_ms: int,
    *,
    release: Release,
    maybe_stored: bool,
) -> SendError:
    """The error a send ends with; *last* is None if it ran out of time."""
    where = ", ".join(brokers) or "nobody"
    text = f"{topic}: {len(brokers)} attempts in {took_ms} ms at {where}: {_said(last, release)}"
    kind: type[SendError] = NotStored
    if maybe_stored:
        kind = MaybeStored
    elif isinstance(last, Refused):
        kind = BrokerRefused
    return kind(text, code=_code(last), brokers=brokers, took_ms=took_ms)


def _code(outcome: Outcome | None) -> int | None:
    """The number upstream would put into its exception."""
    match outcome:
        case Refused(code=code):
            return code
        case NoMaster():
            return ClientErrorCode.BROKER_NOT_EXIST
        case NeverSent():
            return ClientErrorCode.CONNECT_BROKER
        case TimedOut() | None:
            return ClientErrorCode.ACCESS_BROKER_TIMEOUT
    return None


def _said(outcome: Outcome | None, release: Release) -> str:
    match outcome:
        case Refused(code=code, remark=remark):
            return f"{response_name(code, release)}: {remark}"
        case NoMaster(broker=broker):
            return f"{broker} has no master"
        case None:
            return "the call is out of time"
    return str(outcome)
