"""RocketMQ releases as data: the one that a role behaves as, and those that changed a behaviour.

A profile is a release number.  Code asks ``release >= DLQ_IS_READABLE`` where a behaviour
differs: each constant below is named after one behaviour, so that the version matrix can be
read in one place.  Several constants may have the same number.  Append a new one to the section
of its role.  Changes of the bytes themselves are in ``rocketmq_emulator.protocol.versions``.
"""

from __future__ import annotations

import bisect
import functools
from typing import NamedTuple

from rocketmq_emulator.protocol.versions import R_4_9_7, R_5_0_0, R_5_3_3, Release

__all__ = ["R_4_9_7", "R_5_0_0", "R_5_3_3", "Release", "known_release"]

KNOWN_RELEASES = (  # of RocketMQ, those whose behaviour the constants below describe
    *("4.0.0", "4.1.0", "4.2.0", "4.3.0", "4.3.1", "4.3.2", "4.4.0", "4.5.0", "4.5.1", "4.5.2"),
    *("4.6.0", "4.6.1", "4.7.0", "4.7.1", "4.8.0", "4.9.0", "4.9.1", "4.9.2", "4.9.3", "4.9.4"),
    *("4.9.5", "4.9.6", "4.9.7", "4.9.8", "5.0.0", "5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.4"),
    *("5.2.0", "5.3.0", "5.3.1", "5.3.2", "5.3.3"),
)


@functools.cache
def known_release(text: str) -> Release:
    """The release that *text* names.  Raises ``ValueError`` for an unknown one."""
    release = Release.parse(text)
    if text not in KNOWN_RELEASES:
        place = bisect.bisect(KNOWN_RELEASES, release, key=Release.parse)
        near = KNOWN_RELEASES[max(0, place - 1)]
        raise ValueError(
            f"RocketMQ {text} is not known here, only releases from {KNOWN_RELEASES[0]} to "
            f"{KNOWN_RELEASES[-1]}; the nearest is {near}"
        )
    return release


class Backported(NamedTuple):
    """A change in both lines, 4.x and 5.x, each from its own release on."""

    in_four: Release
    in_five: Release

    def reached(self, release: Release) -> bool:
        """Whether *release* has the change."""
        return release >= (self.in_five if release >= R_5_0_0 else self.in_four)


class ReleaseSpan(NamedTuple):
    """A behaviour of some releases that neither those before nor those after them have."""

    first: Release
    ended: Release  # the first release without it

    def holds(self, release: Release) -> bool:
        """Whether *release* has the behaviour."""
        return self.first <= release < self.ended


# Remoting (reference: wire-protocol §10) ----------------------------------------------

REPLIES_ECHO = ReleaseSpan(Release(4, 9, 4), Release(5, 0, 0))  # in the request's serialization

# NameServer (reference: server-behaviour §12) -----------------------------------------

TOPIC_SYS_FLAG_SPELLED = Release(4, 9, 0)  # "topicSynFlag" in routes before
STANDARD_JSON_ROUTES = Release(4, 9, 4)  # real JSON for peers from 4.9.4 on, or on request
FAQ_AT_BEST_PRACTICE = Release(5, 1, 0)  # the page that refusals name
UNKNOWN_CODE_REFUSED = Release(5, 0, 0)  # code 3; before, the NameServer did not answer
SCAN_EVERY_5_S = Release(5, 0, 0)  # for silent brokers; every 10 s before
BROKERS_KEYED_BY_CLUSTER = Release(5, 0, 0)  # brokerLiveTable: by cluster and address, not address
DATA_VERSION_HAS_STATE = Release(5, 0, 0)  # the comparison includes the broker's epoch
OUTDATED_BROKER_IGNORED = Release(5, 0, 0)  # another address holds its id with a later state
LONE_TOPIC_REFUSED = Release(5, 0, 0)  # a broker's first registration, if it has exactly one topic
MISSING_TOPICS_TAKEN = Release(5, 0, 0)  # although the data version has not changed
REGISTRATION_EXTENDED = Release(5, 0, 0)  # mappings, zone, heartbeat timeout, acting master
QUERY_IS_HEARTBEAT = Release(5, 0, 0)  # QUERY_DATA_VERSION, even if the version has changed
ROUTES_SUIT_CALLER = Release(5, 0, 0)  # acting masters, zones
MIN_BROKER_ID_NOTIFIED = Release(5, 0, 0)
NAMESRV_HAS_MORE_SETTINGS = Release(5, 0, 0)
NAMESRV_MAY_WAIT = Release(5, 1, 0)  # the settings needWaitForService, waitSecondsForService
NAMESRV_DROPS_UNLISTED = Release(5, 1, 4)  # the setting deleteTopicWithBrokerRegistration
SERVERS_END_GRACEFULLY = Release(5, 2, 0)  # the setting enableShutdownGracefully
WORKERS_ARE_OPTIONAL = Release(5, 3, 1)  # the setting serverNettyWorkerGroupEnable
NAMESRV_HAS_BLACK_LIST = Backported(Release(4, 9, 8), Release(5, 2, 0))  # of settings, a setting
KV_CONFIG_PATH_IS_FIXED = Backported(Release(4, 9, 6), Release(5, 1, 1))  # code 16 if updated
STORE_PATH_IS_FIXED = Backported(Release(4, 9, 7), Release(5, 1, 2))  # configStorePath, too
UNREGISTERED_BY_ADDRESS = Release(5, 1, 0)  # UNREGISTER_BROKER: by address instead of id

# Broker (reference: server-behaviour §12) ---------------------------------------------

INVALID_PARAMETER_CODE = Release(5, 3, 2)  # 29 instead of 1 for bad topics and queue ids
DLQ_IS_READABLE = Release(4, 9, 2)  # a %DLQ% topic is made with perm 6 instead of 2
GROUP_NAMES_CHECKED = Release(5, 1, 1)  # a group with an illegal name is not made
OVERFLOW_GOES_TO_MAX = Release(4, 9, 4)  # a pull far beyond the end is not sent back to 0
EMPTY_QUEUE_HAS_NO_OFFSET = Release(5, 1, 0)  # QUERY_CONSUMER_OFFSET: 22 instead of 0
SEARCH_BY_TIME_EXACT = Release(5, 1, 1)  # first message at or after t, instead of the nearest
REGISTER_TOPIC_SYNCHRONOUSLY = Release(5, 1, 4)  # the route is there before the send is answered
RESET_TOPIC_CODED = Release(5, 3, 2)  # a reset by the members: 17 for an unknown topic
RETRIES_BY_TAG_NOT_FILTERED = Release(5, 1, 4)  # filterSupportRetry: before, by the expression
SERVER_SIDE_RESET = Release(5, 2, 0)  # INVOKE_BROKER_TO_RESET_OFFSET: on unless switched off
BROADCAST_NOT_NOTIFIED = Release(5, 3, 1)  # no NOTIFY_CONSUMER_IDS_CHANGED for broadcasting groups
GROUP_NEEDED_TO_REGISTER = Release(5, 1, 1)  # a heartbeat's group that cannot be made is skipped
GROUP_NEEDED_TO_COMMIT = Release(5, 3, 0)  # UPDATE_CONSUMER_OFFSET of an unknown group: 26
ORDERLY_RETRY_GOES_TO_DLQ = Release(5, 1, 1)  # sends to %RETRY% of a group that holds locks
ACTING_MASTER_SENT = Release(5, 0, 0)  # REGISTER_BROKER carries enableActingMaster
BROKER_PERM_MASKS_TOPIC = Release(5, 0, 0)  # in routes; before, it replaced the topic's
ABSENT_NAMES_FAIL = Release(5, 0, 0)  # a send without a topic; before, refused as blank
UNNAMED_TOPIC_FAILS = Release(5, 3, 0)  # UPDATE_AND_CREATE_TOPIC; before, "blank"
BROKER_HAS_BLACK_LIST = Backported(Release(4, 9, 8), Release(5, 2, 0))  # of settings, a setting
BROKER_PATH_IS_FIXED = Release(5, 1, 1)  # UPDATE_BROKER_CONFIG refuses brokerConfigPath
CLIENT_SILENCE_IS_SET = Release(5, 1, 0)  # channelExpiredTimeout; before, always two minutes
GROUP_OFFSETS_MAY_GO = Release(4, 9, 0)  # DELETE_SUBSCRIPTIONGROUP can delete them
CLEAN_OFFSET_SPELLED = Release(5, 0, 0)  # the field of that; before, "removeOffset"
COMMIT_NEEDS_TOPIC = Release(5, 0, 0)  # UPDATE_CONSUMER_OFFSET of an unknown topic: 17
DEAD_AFTER_ONE_MORE_RETRY = Release(5, 0, 0)  # a send to %RETRY%: dead above its limit, not at it
DEAD_LETTERS_NEVER_WAIT = Release(5, 0, 0)  # a send to %RETRY%: as a dead letter it loses DELAY
CORRECTIONS_ARE_COMPARED = Release(5, 1, 0)  # before, group and topic were swapped
EMPTY_BODY_REFUSED = Release(5, 0, 0)  # of a message: MESSAGE_ILLEGAL
EMPTY_BODY_FAILS = Release(5, 1, 0)  # before the message is checked
EXPIRED_PRODUCER_COMPARED = Release(5, 1, 4)  # before, its client got no replies on newer ones
RECONSUME_TIMES_PUSHED = Release(5, 3, 0)  # with a reply: 0 if the sender leaves them out
EMPTY_BODY_CHECKS_NOTHING = Release(5, 3, 0)  # CHECK_CLIENT_CONFIG; before, it fails
FILTER_SERVERS_GONE = Release(5, 1, 1)  # and the setting of their number
FORBIDDEN_TABLE_SENT = Release(5, 0, 0)  # GET_ALL_SUBSCRIPTIONGROUP_CONFIG
FORBIDDEN_TYPE_SENT = Release(5, 0, 0)  # PULL_MESSAGE: a number for the reason of NO_PERMISSION
HEARTBEAT_REPLY_HAS_FLAGS = Release(5, 1, 3)
MORE_SYSTEM_GROUPS = Release(5, 0, 0)  # CID_RMQ_SYS_TRANS
MORE_SYSTEM_TOPICS = Release(5, 0, 0)
TIMER_TOPIC_AT_START = Release(5, 3, 1)  # one more of them: rmq_sys_wheel_timer
CHECKPOINT_TOPIC_IS_SYSTEMS = Release(5, 2, 0)
MOVED_OFFSETS_NOT_STORED = Release(5, 0, 0)  # no more messages in OFFSET_MOVED_EVENT
MSG_REGION_STORED = Release(5, 0, 0)  # in the properties, with TRACE_ON
OFFSETS_DELETED_WITH_TOPIC = Release(5, 0, 0)
OFFSETS_HAVE_VERSION = Release(5, 0, 0)  # consumerOffset.json: data version and topics by group
ORDER_SET_BY_ADMIN = Release(5, 1, 0)  # before, only the NameServer's table did
PULL_REPLY_HAS_FLAGS = Release(5, 0, 0)
PULLS_ARE_DROPPED = Release(5, 0, 0)  # by enableNetWorkFlowControl
REGISTER_WAITS_LONGER = Release(5, 0, 0)  # 24 s instead of 6 s
RETRY_TOPICS_MAY_BE_LONG = Release(5, 1, 0)  # 255 bytes instead of 127
RETRY_TOPIC_IS_ORDERED = Release(5, 0, 0)  # by the heartbeat of a consumer of an ordered topic
RETRY_BATCH_TAKEN = ReleaseSpan(Release(4, 7, 0), Release(5, 0, 0))
SAME_TOPIC_NOT_WRITTEN = Release(5, 2, 0)  # UPDATE_AND_CREATE_TOPIC without a change
ADMIN_QUEUE_IS_BOUNDED = Release(5, 0, 0)  # of the pool for all other requests
ADMIN_QUEUE_FAILS_FAST = Release(5, 3, 0)  # SYSTEM_BUSY for requests that waited 5 s in it
BUSY_LOG_IS_SYSTEM_BUSY = Release(5, 3, 0)  # a put that finds the page cache busy: 2, not 1
RUNTIME_INFO_OF_5 = Release(5, 0, 0)  # timers, the pool of lite pulls
ACK_POOL_SHOWN = Release(5, 3, 2)  # in the runtime info
SYSTEM_TOPICS_NOT_COUNTED = Release(5, 1, 0)  # in the totals of messages put and got
EARLIEST_TIME_EXACT = Release(5, 1, 0)  # before, unknown of a log below two maximal messages
SENT_BACK_IS_STORED_HERE = Release(5, 0, 0)  # not at the store host of the original
SET_ZERO_IF_NOT_FOUND = Release(5, 0, 0)  # QUERY_CONSUMER_OFFSET: false is obeyed
SUSPENSION_READ_WHEN_HELD = Release(5, 0, 0)  # its length; before, of each pull that may be held
SYS_FLAGS_SENT_TO_CLIENT = Release(5, 0, 0)  # CONSUME_MESSAGE_DIRECTLY: of topic and group
TOPIC_ATTRIBUTES_SHOWN = Release(5, 0, 0)  # where a remark shows a topic
TOPIC_ATTRIBUTES_READ = Release(5, 0, 0)  # by UPDATE_AND_CREATE_TOPIC
CLEANUP_POLICY_KNOWN = Release(5, 1, 0)  # a topic's attribute cleanup.policy
MIXED_TYPE_KNOWN = Release(5, 1, 4)  # message.type MIXED: refused by name
TOPIC_MAPPING_SENT = Release(5, 0, 0)  # GET_ALL_TOPIC_CONFIG
TOPIC_STATS_OF_ALL_QUEUES = Release(5, 3, 0)  # of the larger count; before, of the writable
TIMER_MESSAGES_KNOWN = Release(5, 0, 0)  # before, their properties mean nothing
TIMER_DELETE_NAMES_TOPIC = Release(5, 3, 2)  # TIMER_DEL_UNIQKEY: topic and key, not the key alone
TIMER_PUT_GIVEN_UP = Release(5, 3, 2)  # at a full store, after three tries; before, never
RETRIES_ARE_NOT_HALF = Release(5, 0, 0)  # a delayed retry with TRAN_MSG is an ordinary message
HALF_HAS_TRANSACTION_ID = Release(5, 1, 0)  # __transactionId__, the unique key
CHECK_NAMES_BROKER = Release(5, 1, 0)  # CHECK_TRANSACTION_STATE: its field bname
CHECK_NAMES_TOPIC = Release(5, 3, 0)  # CHECK_TRANSACTION_STATE: the half topic
OPS_ARE_BATCHED = Release(5, 1, 0)  # many outcomes in a record; before, one, written at once
CHECKS_EVERY_30_S = Release(5, 1, 1)  # of transactions; before, every 60 s
LATE_END_REFUSED = Release(5, 1, 1)  # END_TRANSACTION after the message's own immunity: 604
UNIQ_KEY_ADDED = Release(5, 0, 0)  # to a message without one, and answered as the transaction id
HA_ACKS_ARE_COUNTED = Release(5, 0, 0)  # open connections; before, the highest report ever counts
HA_REPORTS_ARE_COMPARED = ReleaseSpan(Release(4, 9, 3), Release(5, 0, 0))  # with the log's end
HA_CLIENT_WAITS_AFTER_ERROR = Release(5, 0, 0)  # 5 s; and it leaves a silent master
SYNC_STATE_SET_CHECK_GOES_ON = Release(5, 1, 4)  # before, the master's own id ended it
CONFIRMED_BY_MASTER = Release(5, 2, 0)  # unless allAckInSyncStateSet; before, by all in sync
UNCOMMITTED_IS_READ = Release(5, 3, 0)  # with readUnCommitted; before, never
HA_MASTER_ADDRESS_LOST = Release(5, 0, 0)  # haMasterAddress: set before the client is made
HA_PORT_IS_SET = Release(5, 1, 1)  # haListenPort; before, always the port after the broker's
SLAVES_REJECT_REQUESTS = Release(5, 0, 0)  # sends, and pulls without slaveReadEnable: code 2
SLAVES_REFUSE_CHANGES = ReleaseSpan(Release(4, 9, 4), Release(5, 1, 4))  # of topics and groups
SLAVES_STORE_COMMITS = Release(5, 0, 0)  # of pulls; before, only of UPDATE_CONSUMER_OFFSET
SLAVES_WAKE_PULLS = Release(5, 0, 0)  # when a message arrives; before, only the sweep did
SLAVE_SYNC_EVERY_10_S = ReleaseSpan(Release(4, 5, 0), Release(5, 0, 0))  # else every 60 s
SLAVE_SYNC_OF_5 = Release(5, 0, 0)  # request modes and timers too; delay offsets are loaded
HALF_MESSAGES_ESCAPE = Release(5, 1, 0)  # of an acting master, which asks no producer then
ESCAPES_TO_OTHER_NAMES = Release(5, 3, 0)  # of timers and half messages; before, in turn
TIMER_VERSION_COPIED = Release(5, 2, 0)  # with the timer checkpoint, to a slave
TIMER_METRIC_DELETED = Release(5, 3, 3)  # with its topic; before, its count stays
SYNC_REPLACES_ONE_BY_ONE = Release(5, 3, 2)  # topics and groups of a slave; attributes fail
WAIT_DROPPED = ReleaseSpan(Release(4, 9, 1), Release(5, 0, 0))  # but of delayed ones and batches

# Controller (reference: replication-behaviour §6) -------------------------------------

JRAFT_CONTROLLERS = Release(5, 2, 0)  # controllerType jRaft; before, the setting did not exist

# Properties as text, of brokers and clients -------------------------------------------

LAST_PROPERTY_OPEN = ReleaseSpan(Release(4, 9, 1), Release(5, 2, 0))  # no \x02 after the last

# Clients: producers and consumers (reference: client-behaviour §0.1) ------------------

DEFAULT_TOPIC_IS_FIXED = Release(5, 1, 1)  # always TBW102, which is no longer polled
TRACE_GROUPS_NUMBERED = Release(4, 9, 1)  # groups of trace producers; before, without a number
TRACES_GATHERED = Release(4, 9, 4)  # for half a second; before, until 5 ms pass without a trace
TRACES_GO_IN_TENS = Release(5, 3, 1)  # traceMsgBatchNum, or after 5 s
ONE_NAMESRV_A_CALL = Release(5, 3, 0)  # a failing route call tries one server, not each
HEARTBEAT_ON_CONNECT = Release(5, 2, 0)  # a new connection sends a heartbeat at once

# Producer -----------------------------------------------------------------------------

FAULT_TABLE_SHORT = Release(5, 1, 4)  # RIP-63's latency tables
BUSY_IS_RETRYABLE = Release(5, 3, 0)  # SYSTEM_BUSY is retried on another broker
GO_AWAY_IS_RETRYABLE = Release(5, 3, 1)  # so is GO_AWAY
EVERY_PROBE_COUNTS = Release(4, 8, 0)  # without latency faults, each try of a queue counts
FAULT_UPDATES_REFINED = Release(5, 1, 4)  # which brokers are isolated, or unreachable
ISOLATIONS_ONLY_EXTENDED = Release(5, 1, 4)  # a fast answer does not end an isolation
QUEUES_ARE_FILTERED = Release(5, 1, 4)  # available, else reachable, else any; each try counts
REACHABLE_IS_APART = Release(5, 2, 0)  # before, an unreachable broker was not available (#7812)
END_NAMES_BROKER = Backported(Release(4, 9, 5), Release(5, 1, 0))  # END_TRANSACTION has bname
END_NAMES_TOPIC = Release(5, 3, 0)  # END_TRANSACTION has topic
START_QUERIES_ROUTES = Release(5, 2, 0)  # a producer with topics queries their routes at its start
DETECTOR_EXISTS = Release(5, 1, 4)  # startDetectorEnable
COMPRESSION_TYPED = Release(4, 9, 4)  # before, the flag had the compressed bit alone
BATCH_HAS_KEY = Release(5, 0, 0)  # the batch itself carries a unique key too
WORST_PICK_IS_SORTED = Release(4, 9, 4)  # before, shuffled first, so that ties are broken
WORST_PICK_IS_FRESH = Backported(Release(4, 9, 8), Release(5, 1, 4))  # the list is not changed
LATENCY_CHOICE_AVOIDS_LAST = Release(5, 1, 1)  # it skips the last broker

# Pull consumers -----------------------------------------------------------------------

COMMITTED_IS_IN_MEMORY = Release(4, 7, 1)  # offsets are read there first; before, from the broker
PULLS_KNOW_THEIR_QUEUE = Release(4, 9, 0)  # a pull of a released queue changes nothing (#2832)
START_ERRORS_WAIT_LONGER = Release(4, 9, 1)  # 3 s if the start offset cannot be queried (#2708)
SEEK_CANCELS_PULL = Release(4, 9, 2)  # before, the pull in flight ended by itself (#3215)
COMMIT_IS_IN_MEMORY = Release(4, 9, 4)  # broadcasting too; before, that wrote the file
LITE_POLL_TRACED = Release(5, 0, 0)  # before, a lite pull consumer traces what it pulls
LITE_PULL_SHOWS_QUEUES = Release(5, 1, 1)  # GET_CONSUMER_RUNNING_INFO: the queues it has
STREAMS_MARKED = Release(4, 9, 4)  # ReqT on every request, @STREAM behind the client id
LITE_PULL_HAS_CODE = Release(5, 0, 0)  # LITE_PULL_MESSAGE; before, PULL_MESSAGE with a flag

# Consumer -----------------------------------------------------------------------------

START_ERRORS_RAISED = Release(5, 0, 0)  # a start offset that cannot be queried; before, -1 (#2708)
POSITION_ERRORS_RAISED = Release(4, 9, 0)  # a failed search of a new group's start; before, -1
FIRST_PULL_DELAYED = Release(5, 0, 0)  # 500 ms before a new queue's first pull
REBALANCE_PACED = Release(5, 2, 0)  # at least 1 s between passes, 1 s retry if unbalanced
START_NEEDS_HEARTBEAT = Release(5, 2, 0)  # a start without one does not wake the first pass
ORDERLY_RELEASE_FORCED = Release(5, 2, 0)  # a busy queue is released after 20 s
OFFSET_REPAIRED_AT_ONCE = Release(5, 2, 0)  # not ten seconds after OFFSET_ILLEGAL
SEND_BACK_IS_CHECKED = Release(5, 1, 0)  # a message that has left its queue is not sent back again
GIVING_UP_COUNTS = Release(5, 1, 1)  # orderly: the copy counts the last failure as well
BROADCAST_IS_NOT_LOCKED = Release(5, 3, 2)  # orderly and broadcasting: no LOCK_BATCH_MQ
NEW_QUEUE_IS_LOCKED = Release(4, 9, 5)  # at once, not in the next round
BUSY_PULL_IS_SHORT = Backported(Release(4, 9, 5), Release(5, 1, 0))  # 20 ms
LOCAL_OFFSETS_MERGE = Backported(Release(4, 9, 8), Release(5, 2, 0))  # by queue
OFFSET_ERRORS_COUNT = Release(5, 0, 0)  # an error about an offset is not "no stored offset"
DROPPED_LOCKS_LAPSE = Release(5, 0, 0)  # orderly: locks of dropped queues are not renewed
ALL_ARE_DROPPED_FIRST = Release(5, 0, 0)  # rebalance: before the first release is waited for
LOCK_REFUSED_WAKES = Release(5, 0, 0)  # orderly: the next pass comes half a second later
PULL_LIMITS_BYTES = Release(5, 0, 0)  # a pull has maxMsgBytes
CLIENT_FIELDS_SHOWN = Release(5, 1, 0)  # GET_CONSUMER_RUNNING_INFO: those of ClientConfig, too
RECORD_MAGIC_MATTERS = Release(5, 0, 0)  # a record of an unknown magic code is not read
COMPRESSED_BIT_CLEARED = Release(5, 3, 2)  # of a message whose body was decompressed
