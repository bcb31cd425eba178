"""The features that programs check: their names, in the order of the page.

A program prints the name of a feature with its outcome; what a feature demands is the check
in the program.  A name means the same in all SDKs.
"""

from __future__ import annotations

from types import MappingProxyType

FEATURES = MappingProxyType(
    {
        "Sending": {
            "send-sync": "send and wait for the result",
            "send-async": "send, the result by a callback",
            "send-oneway": "send one-way",
            "send-batch": "send a batch",
            "send-batch-async": "send a batch, the result by a callback",
            "send-to-queue": "send to a chosen queue",
            "send-by-selector": "send to the queue that a selector chooses",
            "send-properties": "tag, keys and properties",
            "send-compressed": "compressed bodies",
            "send-compressed-zstd": "bodies compressed with zstd",
            "send-3-mb": "a body of 3 MiB",
            "send-creates-topic": "send to a topic that does not exist yet",
            "send-auto-batch": "sends collected to batches by the client",
            "send-vip-channel": "send through the second port (VIP channel)",
            "send-delay-level": "delay by a level",
            "send-delay-ms": "delay by milliseconds",
            "send-deliver-at": "delivery at a time",
            "recall": "recall of a delayed message",
        },
        "Transactions": {
            "transaction-commit": "commit a transaction",
            "transaction-rollback": "roll a transaction back",
            "transaction-check-commit": "unknown state of a transaction, then commit",
            "transaction-check-rollback": "unknown state of a transaction, then rollback",
        },
        "Request and reply": {
            "request-sync": "request and wait for the reply",
            "request-async": "request, the reply by a callback",
            "request-to-queue": "request to a chosen queue",
        },
        "Push consumers": {
            "consume-concurrently": "consume concurrently",
            "consume-orderly": "consume in order",
            "consume-broadcasting": "broadcasting",
            "consume-tags": "filter by tags",
            "consume-sql": "filter by SQL92",
            "consume-batches": "batches for the listener",
            "consume-retry": "retry after a failed listener",
            "consume-send-back": "send back a message by hand",
            "consume-dead-letter": "dead letters after the last retry",
            "consume-orderly-suspend": "suspend a queue in order",
            "consume-suspend-resume": "suspend and resume a consumer",
            "consume-from-first": "start at the first offset",
            "consume-from-last": "start at the last offset (0 for a topic that is new)",
            "consume-from-timestamp": "start at a time (0 for a topic that is new)",
            "consume-committed": "go on at the committed offset",
            "consume-shared": "two members share the queues",
            "consume-assigned-by-broker": "queues assigned by the broker",
            "consume-pop": "POP",
            "heartbeat-v2": "heartbeats with a fingerprint (V2)",
        },
        "Pull consumers": {
            "pull": "pull from a queue",
            "pull-held": "a pull is held until a message comes",
            "pull-sql": "pull with a filter by SQL92",
            "pull-commit": "commit an offset",
            "pull-schedule": "pulls by a schedule service",
            "lite-subscribe": "lite: subscribe and poll",
            "lite-sql": "lite: subscribe by SQL92",
            "lite-assign": "lite: assign queues",
            "lite-seek": "lite: seek to an offset",
            "lite-seek-begin-end": "lite: seek to the begin and the end",
            "lite-offset-for-timestamp": "lite: the offset at a time",
            "lite-pause-resume": "lite: pause and resume queues",
            "lite-commit": "lite: commit",
            "lite-queue-changes": "lite: notice new queues of a topic",
        },
        "Administration by clients": {
            "admin-create-topic": "create a topic",
            "admin-delete-topic": "delete a topic",
            "admin-topics": "list the topics",
            "admin-groups": "list the subscription groups",
            "admin-queues": "the queues of a topic",
            "admin-offsets": "first and next offset of a queue",
            "admin-search-offset": "the offset of a queue at a time",
            "admin-earliest-time": "the time of the oldest message",
            "admin-view-by-offset-id": "a message by its offset id",
            "admin-view-by-unique-key": "a message by its unique key",
            "admin-query-by-key": "messages by a key",
        },
        "Traces and namespaces": {
            "trace-send": "message trace of a send",
            "trace-consume": "message trace of a consumer",
            "namespace": "namespace",
            "namespace-v2": "namespace V2",
        },
    }
)

TITLES = {name: title for section in FEATURES.values() for name, title in section.items()}

NOTES = MappingProxyType(  # since when a broker has it, and why ours has not
    {
        "send-delay-ms": "timer messages: since 5.0",
        "send-deliver-at": "timer messages: since 5.0",
        "recall": "since 5.3.2",
        "consume-assigned-by-broker": "since 5.0",
        "consume-pop": "since 5.0; not supported here",
    }
)

OWN_BUG = "a bug of the clients 5.3.1 to 5.3.3: they take the stored request for the reply"
LITE_5 = "clients of 5.x send request 361, which 4.9 does not know"
TRACE_5 = "clients of 5.x trace messages with a region, which 4.9 stores only with a send hook"
LITE_POLLS = (
    "lite-subscribe",
    "lite-sql",
    "lite-assign",
    "lite-seek",
    "lite-seek-begin-end",
    "lite-pause-resume",
    "lite-commit",
)
NOTES_OF_SDKS = MappingProxyType(  # what a client does itself
    {
        **{(sdk, name): LITE_5 for sdk in ("java-5-3-3", "java-5-4-0") for name in LITE_POLLS},
        ("java-5-3-3", "request-sync"): OWN_BUG,
        ("java-5-3-3", "request-to-queue"): OWN_BUG,
        ("spring", "request-sync"): OWN_BUG,
        ("spring", "lite-subscribe"): LITE_5,
        **{(sdk, "trace-consume"): TRACE_5 for sdk in ("java-5-3-3", "java-5-4-0", "spring")},
        ("node", "send-creates-topic"): "this client sends only to topics that have a route",
        ("node", "send-deliver-at"): "this client sets a property of another service",
    }
)
