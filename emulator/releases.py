"""RocketMQ releases as data: which one we are, and in which one a behaviour changed.

A profile is a release number.  Code asks ``release >= CHANGED_IN`` where a behaviour
differs; the constants below name the change, so that the version matrix can be read
in one place.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.versions import R_4_9_7, R_5_3_3, Release

__all__ = ["R_4_9_7", "R_5_3_3", "Release"]

# What changed when (reference: server-behaviour §12, wire-protocol §10, client-behaviour §0.1).
FIVE = Release(5, 0, 0)  # the many small things that came with 5.0.0
INVALID_PARAMETER_CODE = Release(5, 3, 2)  # 29 instead of 1 for bad topics and queue ids
TOPIC_SYS_FLAG_SPELLED = Release(4, 9, 0)  # routes said "topicSynFlag" before
STANDARD_JSON_ROUTES = Release(4, 9, 4)  # routes as real JSON for peers from 4.9.4 on, or on wish
UNREGISTERED_BY_ADDRESS = Release(5, 1, 0)  # UNREGISTER_BROKER goes by address instead of id
DLQ_IS_READABLE = Release(4, 9, 4)  # a %DLQ% topic is made with perm 6 instead of 2
GROUP_NAMES_CHECKED = Release(5, 1, 4)  # a group with an illegal name is not made
OVERFLOW_GOES_TO_MAX = Release(4, 9, 4)  # a pull far beyond the end: not back to 0
EMPTY_QUEUE_HAS_NO_OFFSET = Release(5, 1, 0)  # QUERY_CONSUMER_OFFSET: 22 instead of 0
SEARCH_BY_TIME_EXACT = Release(5, 1, 4)  # first message at or after t, instead of the nearest
REGISTER_TOPIC_SYNCHRONOUSLY = Release(
    5, 1, 4
)  # a new topic is in the route before the send is answered
BROADCAST_NOT_NOTIFIED = Release(5, 3, 1)  # no NOTIFY_CONSUMER_IDS_CHANGED for broadcasting groups
GROUP_NEEDED_TO_REGISTER = Release(
    5, 1, 1
)  # heartbeat of a group that cannot be created is skipped
GROUP_NEEDED_TO_COMMIT = Release(5, 3, 0)  # UPDATE_CONSUMER_OFFSET of an unknown group: 26
ORDERLY_RETRY_GOES_TO_DLQ = Release(5, 1, 1)  # sends to %RETRY% of a group that holds locks
FIRST_PULL_DELAYED = Release(5, 0, 0)  # client: 500 ms before a new queue's first pull
REBALANCE_PACED = Release(5, 2, 0)  # client: at least 1 s between passes, 1 s retry if unbalanced
FAULT_TABLE_SHORT = Release(5, 1, 4)  # client: RIP-63's latency tables
BUSY_IS_RETRYABLE = Release(5, 3, 0)  # client: SYSTEM_BUSY is retried on another broker
EVERY_PROBE_COUNTS = Release(4, 8, 0)  # client: each probe of a retry's walk steps the round robin
WORST_PICK_IS_FRESH = Release(4, 9, 8)  # client (4.x): the worst-case pick leaves the list alone
LATENCY_CHOICE_AVOIDS_LAST = Release(5, 1, 1)  # client: its walk skips the last broker
DEFAULT_TOPIC_IS_FIXED = Release(5, 1, 1)  # client: always TBW102, which is no longer polled
ONE_NAMESRV_A_CALL = Release(5, 3, 0)  # client: a failing route call tries one server, not each
HEARTBEAT_ON_CONNECT = Release(5, 2, 0)  # client: an opened connection is used to register at once
GO_AWAY_IS_RETRYABLE = Release(5, 3, 1)  # client: so is GO_AWAY
START_NEEDS_HEARTBEAT = Release(5, 2, 0)  # consumer: no first pass before a heartbeat
ORDERLY_RELEASE_FORCED = Release(5, 2, 0)  # consumer: a busy queue goes after 20 s
OFFSET_REPAIRED_AT_ONCE = Release(5, 2, 0)  # consumer: not ten seconds after OFFSET_ILLEGAL
SEND_BACK_IS_CHECKED = Release(5, 1, 0)  # consumer: what has left the queue is not sent back again
GIVING_UP_COUNTS = Release(5, 1, 1)  # orderly consumer: the copy counts the last failure as well
BROADCAST_IS_NOT_LOCKED = Release(5, 3, 2)  # orderly and broadcasting: no locks are asked for


class Backported(NamedTuple):
    """A change that came to both lines, each at its own release."""

    in_four: Release
    in_five: Release

    def reached(self, release: Release) -> bool:
        return release >= (self.in_five if release >= FIVE else self.in_four)


NEW_QUEUE_IS_LOCKED = Backported(Release(4, 9, 5), FIVE)  # consumer: at its birth, not next round
BUSY_PULL_IS_SHORT = Backported(Release(4, 9, 5), Release(5, 1, 0))  # consumer: 20 ms
LOCAL_OFFSETS_MERGE = Backported(Release(4, 9, 8), Release(5, 2, 0))  # consumer: by queue
