"""RocketMQ releases as data: which one we are, and in which one a behaviour changed.

A profile is a release number.  Code asks ``release >= CHANGED_IN`` where a behaviour
differs; the constants below name the change, so that the version matrix can be read
in one place.
"""

from __future__ import annotations

import msgspec

VERSION_ORDINALS = {  # MQVersion.Version: the index of a release in upstream's enum
    "4.7.0": 351,
    "4.9.4": 401,
    "4.9.5": 403,
    "4.9.6": 405,
    "4.9.7": 407,
    "4.9.8": 409,
    "5.0.0": 413,
    "5.1.0": 433,
    "5.1.4": 441,
    "5.2.0": 453,
    "5.3.0": 473,
    "5.3.1": 475,
    "5.3.2": 477,
    "5.3.3": 479,
}


class Release(msgspec.Struct, frozen=True, order=True):
    """A release number that compares as numbers do: ``Release.parse("4.9.7") < Release.parse("5.0.0")``."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Release:
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isdigit() for part in parts):
            raise ValueError(f"a release looks like 4.9.7 or 5.3.3, not {text!r}")
        return cls(*(int(part) for part in parts))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def version(self) -> int:
        """The ordinal this release writes into every header it sends."""
        if (known := VERSION_ORDINALS.get(str(self))) is not None:
            return known
        below = [r for r in VERSION_ORDINALS if Release.parse(r) <= self]
        return VERSION_ORDINALS[below[-1]] if below else VERSION_ORDINALS["4.7.0"]


R_4_9_7 = Release(4, 9, 7)
R_5_3_3 = Release(5, 3, 3)

# What changed when (reference: server-behaviour §12, wire-protocol §10, client-behaviour §0.1).
FIVE = Release(5, 0, 0)  # the many small things that came with 5.0.0
INVALID_PARAMETER_CODE = Release(5, 3, 2)  # 29 instead of 1 for bad topics and queue ids
EMPTY_QUEUE_HAS_NO_OFFSET = Release(5, 1, 0)  # QUERY_CONSUMER_OFFSET: 22 instead of 0
SEARCH_BY_TIME_EXACT = Release(5, 1, 4)  # first message at or after t, instead of the nearest
REGISTER_TOPIC_SYNCHRONOUSLY = Release(5, 1, 4)  # a new topic is in the route before the send is answered
BROADCAST_NOT_NOTIFIED = Release(5, 3, 1)  # no NOTIFY_CONSUMER_IDS_CHANGED for broadcasting groups
GROUP_NEEDED_TO_REGISTER = Release(5, 1, 1)  # heartbeat of a group that cannot be created is skipped
SERVER_SIDE_RESET = Release(5, 2, 0)  # INVOKE_BROKER_TO_RESET_OFFSET needs nobody online
ORDERLY_RETRY_GOES_TO_DLQ = Release(5, 1, 1)  # sends to %RETRY% of a group that holds locks
FIRST_PULL_DELAYED = Release(5, 0, 0)  # client: 500 ms before a new queue's first pull
REBALANCE_PACED = Release(5, 2, 0)  # client: at least 1 s between passes, 1 s retry if unbalanced
FAULT_TABLE_SHORT = Release(5, 1, 4)  # client: RIP-63's latency tables
BUSY_IS_RETRYABLE = Release(5, 3, 0)  # client: SYSTEM_BUSY is retried on another broker
