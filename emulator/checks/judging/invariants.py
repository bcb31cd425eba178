"""All 61 client invariants: which checkers judge each, and which part facts do not show.

An invariant is a sentence about RocketMQ's clients that holds in every release unless it says
otherwise.  Parts that facts do not show are tested by unit tests of this client, named
``test_client_invariant_NN...``; docs/invariants.md has the whole table.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_emulator.checks.servers.table import SDK_MONITORS


class Invariant(NamedTuple):
    """``checkers`` by name; ``unseen`` is the part that no fact shows; empty: facts show all."""

    number: int
    text: str
    checkers: tuple[str, ...] = ()
    unseen: str = ""

    @property
    def sdk_monitors(self) -> tuple[str, ...]:
        """The checkers that judge it from facts of servers alone: clients in any language."""
        return tuple(name for name, kind in SDK_MONITORS.items() if self.number in kind.invariants)


FORM = "whether a send was sync, async or to a chosen queue"
INSIDE = "what happens inside a client without a fact"
EXACT_SHARE = "which queues a pass chose before they are claimed"

INVARIANTS = (
    Invariant(
        1,
        "the first route poll is 10 ms after the start, then every 30 s; heartbeats at 1, 31 … s; "
        "offsets are written at 10, 15 … s",
        ("heartbeats_come", "members_are_listed"),
        "the client of a route poll: NameServers know no clients",
    ),
    Invariant(
        2,
        "one scheduler: heartbeats to brokers that do not answer make the next route poll late",
        (),
        "when a client's timer was due",
    ),
    Invariant(
        3,
        "without consumers heartbeats go to masters only, with one to every known address",
        ("members_are_listed",),
        "the content of a heartbeat",
    ),
    Invariant(4, "a broker in no route gets no heartbeat after 30 s", (), "which routes are kept"),
    Invariant(
        5,
        "default producers of one process have different client ids; broadcasting consumers have "
        "<ip>@DEFAULT",
        (),
        "which instance names are defaults",
    ),
    Invariant(
        6,
        "a consumer that is shut down unregisters at every known address",
        ("members_unregister",),
        "of a client that unregisters nowhere: whether it was shut down or cancelled",
    ),
    Invariant(
        7,
        "losing all NameServers changes no queues",
        ("routes_outlive_name_servers",),
    ),
    Invariant(8, "a topic that is deleted keeps its queues", ("routes_outlive_name_servers",)),
    Invariant(
        9,
        "a broker without a master, or without write permission, has no queue to send to; to "
        "consume it has all that may be read",
        ("sends_follow_routes", "routes_are_shared"),
        "the permissions in a client's route",
    ),
    Invariant(
        10,
        "an unknown topic gets at most 4 queues of each broker that has TBW102; a topic without "
        "writable queues is error 10005",
        (),
        "the numbers of queues in a client's route",
    ),
    Invariant(11, "a changed route alone wakes no rebalance", (), INSIDE),
    Invariant(12, "without faults any Q consecutive sends hit each of Q queues once", (), FORM),
    Invariant(
        13,
        "a sync send makes at most 3 attempts, never two in a row at one broker if there are two; "
        "a one-way send 1",
        ("attempts_are_bounded", "retries_change_broker", "healthy_attempts_succeed"),
        "of programs: " + FORM,
    ),
    Invariant(
        14,
        "only the broker of the last attempt is avoided by the next",
        ("retries_change_broker",),
        "that a broker of an earlier attempt could have been chosen",
    ),
    Invariant(
        15,
        "a broker that hangs uses a call's whole 3 s in one attempt",
        ("send_timeouts",),
        "how much of its time a send gives to an attempt",
    ),
    Invariant(
        16,
        "an async send is not retried after a refusal, and keeps its queue number when it is",
        ("async_retries_stay",),
        "which attempts the broker refused; of programs: whether a send was async",
    ),
    Invariant(17, "without latency awareness nothing is isolated", ("isolations_are_tabled",)),
    Invariant(
        18,
        "up to 5.1.3: 550 ms isolate for 30 s, an error for 600 s, a fast answer ends it",
        ("isolations_are_tabled", "failures_isolate", "isolated_brokers_rest"),
        "the end of an isolation",
    ),
    Invariant(
        19,
        "since 5.1.4: 550 ms isolate for 2 s, an error for 10 s; a fast answer shortens nothing",
        ("isolations_are_tabled", "failures_isolate", "isolated_brokers_rest"),
        "the end of an isolation",
    ),
    Invariant(20, "how the block of an isolated broker is shared, by release", (), INSIDE),
    Invariant(21, "if all brokers are isolated, sends still go out", (), INSIDE),
    Invariant(
        22,
        "bodies are compressed from 4,096 bytes on and refused above 4 MiB",
        (),
        "the body before compression, and sends that never left",
    ),
    Invariant(23, "all attempts of a send carry one unique id", ("attempts_are_bounded",)),
    Invariant(
        24,
        "a half message that is not SEND_OK is rolled back, its transaction is not executed",
        ("transactions",),
        "whether the listener was called",
    ),
    Invariant(25, "undisturbed, a pass every 20 s", ("pass_times",), "a pass that never came"),
    Invariant(
        26,
        "since 5.2.0 never two passes within 1 s; out of balance the next comes after 1 s",
        ("pass_times",),
        "whether a topic was balanced",
    ),
    Invariant(
        27,
        "members with equal inputs take all queues, each once",
        ("shares_add_up", "shares_rest", "ownership"),
    ),
    Invariant(
        28,
        "averagely: sizes differ by one at most, and are runs in the order of queues",
        ("shares_add_up",),
        EXACT_SHARE,
    ),
    Invariant(29, "by circle and by machine room as tabled", (), EXACT_SHARE),
    Invariant(30, "a member that leaves moves only its own queues (hash)", (), EXACT_SHARE),
    Invariant(31, "names sort as texts, queue numbers as numbers", (), EXACT_SHARE),
    Invariant(
        32,
        "without a list nothing changes; a member not in the list drops all queues of the topic",
        ("shares_add_up", "releases_follow_passes"),
        "a list that did not come",
    ),
    Invariant(33, "the second share of an id that is listed twice has no owner", (), EXACT_SHARE),
    Invariant(
        34,
        "broadcasting members hold all queues and ask for no list",
        ("broadcasters_share_nothing",),
    ),
    Invariant(
        35,
        "a member that joins wakes all members; one that expires is noticed within 20 s",
        ("notices_wake", "leavers_are_forgotten", "ownership"),
        "the notice itself: only the pass that follows shows that it came",
    ),
    Invariant(36, "the outcome of a dropped queue's listener is discarded", (), INSIDE),
    Invariant(
        37,
        "the first pull of a new queue is at once, since 5.0.0 after 500 ms",
        ("first_pulls",),
    ),
    Invariant(
        38,
        "one outstanding pull per queue; at most 1,032 messages of it are cached",
        ("one_pull_at_a_time", "queues_are_pulled"),
        "the cache; pulls of a group with more members only `rmqemu judge` judges",
    ),
    Invariant(
        39,
        "after an error the next pull is 1 s later, when busy 20 ms, when full 50 ms, paused 1 s",
        ("pull_errors_wait",),
        "queues that are full, and consumers that are paused",
    ),
    Invariant(
        40,
        "an empty queue costs one pull in 15 s, and no pause between pulls",
        ("held_pulls",),
        "pauses inside the client",
    ),
    Invariant(
        41,
        "a queue without a pull for 120 s is replaced, unless it is full",
        ("expired_pulls",),
        "queues that are full",
    ),
    Invariant(
        42,
        "after OFFSET_ILLEGAL no pull for 10 s, since 5.2.0 for 0.5 to 1.5 s",
        ("illegal_offsets_rest",),
    ),
    Invariant(43, "the committed offset is the smallest unfinished one", ("commits",)),
    Invariant(
        44,
        "a new group starts at the end, or at 0 of a young queue; a retry topic at 0",
        (),
        "the broker's answer to the query of the offset",
    ),
    Invariant(
        45,
        "a new share sends a newer subscription version",
        ("subscriptions_are_latest",),
        "the content of a heartbeat",
    ),
    Invariant(
        46,
        "the k-th retry waits level k+2; after 16 a message is a dead letter",
        ("retry_levels", "retries"),
    ),
    Invariant(
        47,
        "a message that cannot be sent back is consumed again after 5 s",
        ("repeats_wait",),
    ),
    Invariant(48, "a broadcasting member's failure is dropped", ("repeats_wait",)),
    Invariant(49, "an ack index splits a batch", (), "which messages one call had"),
    Invariant(
        50,
        "an orderly failure comes again after 1 s, before any other message of the queue",
        ("order", "repeats_wait"),
    ),
    Invariant(
        51,
        "no orderly listener call with a lock older than 30 s; renewals every 20 s",
        ("locks", "ownership", "queues_are_unlocked", "one_listener_a_queue"),
    ),
    Invariant(
        52,
        "a busy orderly queue is kept, since 5.2.0 released 20 s after its last lock",
        ("one_listener_a_queue",),
    ),
    Invariant(
        53,
        "a message that runs for 15 minutes is sent back by the next round",
        (),
        "the member whose message was sent back",
    ),
    Invariant(
        54,
        "after a member's death only messages not committed, or in flight, come again",
        ("duplicates",),
        "the messages in flight",
    ),
    Invariant(
        55, "a clean shutdown repeats no message", ("duplicates",), "the messages in flight"
    ),
    Invariant(56, "persisting no queues writes and forgets nothing", (), INSIDE),
    Invariant(57, "broadcast offsets are found under the same client id only", (), INSIDE),
    Invariant(
        58,
        "a broker that died is not chosen after 30 s, a silent one after 160 s",
        ("dead_brokers_leave", "sends_follow_routes"),
    ),
    Invariant(
        59,
        "without its master a queue is read from the slave, but not in order",
        (),
        "from which replica a pull was answered",
    ),
    Invariant(
        60,
        "a synchronous call that times out fails every other call on its connection",
        (),
        "calls in flight at a client",
    ),
    Invariant(
        61,
        "every acknowledged message is delivered to each group, or becomes a dead letter",
        ("lost", "liveness"),
    ),
)
