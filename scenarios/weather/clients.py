"""The clients of weather: the groups and loads of a seed, each with some features.

Each feature has a chance, which is exact in each twenty seeds that begin at a multiple of twenty:
a permutation decides which of them have the feature.  Details (how slow, which tags) are drawn.
Rates follow from the shape alone: features add no messages, except a few large ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec

from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    ListenerPlan,
    LoadPlan,
)
from rocketmq_emulator.scenarios.weather.shape import WeatherShape
from rocketmq_emulator.settings.releases import Release


class Feature(NamedTuple):
    """The chance of a feature, and its description for the docs."""

    chance: float
    what: str


FEATURES: Mapping[str, Feature] = {
    "slow": Feature(
        0.6, "concurrent and lite pull listeners take up to 300 ms, and as much jitter"
    ),
    "slow_steps": Feature(
        0.5, "the orderly listener does so, and is busy at most a quarter of the time"
    ),
    "tags": Feature(0.5, "orders have one of three tags; 6 in 10 billing groups take two of them"),
    "sql": Feature(
        0.3,
        "orders have a region and an amount, or not; billing, and broadcasting members without "
        "tags, subscribe them by SQL92",
    ),
    "news_tags": Feature(0.3, "if orders have tags, broadcasting members take two of them"),
    "delays": Feature(0.5, "half of a load's messages wait 1 to 30 s; in 5.x 1 in 2 by time"),
    "batches": Feature(0.25, "a load is sent in batches of 2, 3 or 8 messages"),
    "one_way": Feature(0.25, "a load is sent one way"),
    "async": Feature(0.5, "that load is sent asynchronously, unless it is one-way"),
    "transactions": Feature(
        0.3,
        "that load is sent in transactions: 20 % are rolled back, 10 % not known at first, 5 % "
        "never ended by their producer",
    ),
    "quick_checks": Feature(
        0.5,
        "brokers check half messages every 5 s, three times; 5 % of the local transactions raise, "
        "5 % are never decided, and in half of these seeds they take 7 s",
    ),
    "keys": Feature(0.3, "that load has keys, which choose the queue; steps always have some"),
    "avoids_slow_brokers": Feature(0.4, "producers of orders have sendLatencyFaultEnable"),
    "detects": Feature(0.5, "these have startDetectorEnable, which 5.1.4 and later use"),
    "sends_on": Feature(
        0.1, "the first load has one producer that avoids slow brokers, and outlasts the faults"
    ),
    "sizes": Feature(0.25, "messages have up to 8 KiB more, so that some are compressed"),
    "large": Feature(0.1, "one or two messages of 1 to 4 MiB, half of them not compressed"),
    "poison": Feature(
        0.4, "5 % of messages always fail at billing: dead letters after 1 or 2 retries"
    ),
    "poison_steps": Feature(0.2, "3 % always fail at the orderly group"),
    "raises": Feature(0.2, "listeners of billing raise, the orderly one suspends"),
    "consume_batches": Feature(
        0.25, "billing gives up to 2, 4 or 16 messages to a listener at once"
    ),
    "small_pulls": Feature(0.3, "push consumers pull at most 1, 2 or 5 messages at once"),
    "flow_control": Feature(
        0.2, "billing holds at most 2, 5 or 20 messages of a queue, or a span of as many offsets"
    ),
    "first_offset": Feature(0.3, "clustering groups begin at the first stored message"),
    "two_topics": Feature(0.4, "billing and the lite pull group subscribe two topics"),
    "strategy": Feature(0.3, "billing allocates by circle or consistent hash"),
    "folder": Feature(0.5, "broadcasting members keep their offsets in a folder"),
    "seeks": Feature(0.4, "lite pull members seek back twice, up to 10 messages"),
    "mixed_members": Feature(0.3, "the last member of each group is of the other release"),
    "mixed_producers": Feature(0.25, "a producer of orders is of the other release"),
    "late_members": Feature(0.3, "members of a group start one after the other, within 3 s"),
    "late_groups": Feature(0.4, "clustering groups start up to 2.9 s after the first messages"),
    "slow_reader": Feature(0.3, "the application of a lite pull member sometimes hangs for 6 s"),
    "sync_flush": Feature(0.25, "brokers have SYNC_FLUSH"),
    "orderly_death": Feature(
        0.25, "of two or more orderly members one is killed for good: its locks expire after 60 s"
    ),
    "busy_steps": Feature(
        0.25, "the orderly listener takes its longest time, and two members join one by one"
    ),
    "news_restart": Feature(
        0.25, "a broadcasting member with a folder is killed after 13 s, and starts again"
    ),
    "join_meets_fault": Feature(0.4, "a member joins while a broker is read-only, or down"),
    "calm_leave": Feature(0.5, "a member closes in order when all faults have ended"),
}
SEEDS_A_BLOCK = 20
OTHER_RELEASE = {"4.9.7": "5.3.3", "5.3.3": "4.9.7"}
FIVE = Release.parse("5.0.0")
SYNC_MASTERS, READABLE_SLAVES = 0.6, 0.5  # shares of the seeds, if masters have slaves
ALL_ACK, FENCED, UNCLEAN = 0.5, 0.3, 0.2  # the same, if there are controllers
UNREADABLE, WITHOUT_ESCAPE = 0.2, 0.2  # the same, if these act as masters
WAITS_MS, WAIT_LEVELS = (4_000, 9_000, 14_000), (2, 3, 4)  # 5 to 30 s: due while masters are away
UNENDED = 0.5  # the share of transactions about which brokers have to ask
TAGS = ("TagA", "TagB", "TagC")
BUSY = 0.25  # the share of the time that listeners are busy, at most
ROLLBACKS, UNKNOWNS, CRASHES = 0.2, 0.1, 0.05  # shares of transactions
RAISES, UNDECIDED = 0.05, 0.05
QUICK_CHECKS = {"transaction_check_interval_ms": 5_000, "transaction_checks_max": 3}
DECIDES_MS = 7_000  # longer than the immunity of a half message: a check meets the end
REGIONS, AMOUNTS = ("eu", "us", ""), ("3", "7", "12", "")  # of orders; empty: the message has none
SQL = (
    "region = 'eu' OR amount > 5",
    "NOT (amount > 5)",
    "region IN ('eu', 'us') AND amount BETWEEN 4 AND 12",
    "region <> 'eu' OR amount IS NULL",
    "NOT (region IN ('us')) AND amount < 7",
    "region IS NOT NULL AND NOT (amount <= 3)",
    "NOT (region = 'us' OR amount > 5)",
)
SHORT_HOLD = {"pull_hold_ms_max": 2_000}  # brokerSuspendMaxTimeMillis
THREADS = 20  # of a consumer
HOT = 0.5  # the share of messages with keys that may go to one queue
LISTENER_MS_MAX = 300.0
LARGE_BYTES = (1 << 20, (4 << 20) - 1_024)
LATE_MS = 3_000
RATE_MIN = 10.0  # below it sends_on gives too few sends for shares of queues, and takes long
SENDS_ON_MS = 110_000  # for isolations to end and routes to be polled, then 200 sends
LATE_GROUP_MS, LATEST_GROUP_MS = 4_000, 2_900  # a fault may name every group from 3 s on
HANG_MS = 6_000.0  # longer than the time between two commits of a lite pull consumer
HANGING = 0.4  # the share of the time that a reader hangs, at most


class Clients:
    """The groups and loads of *seed*, with the settings of its brokers."""

    def __init__(self, seed: int, release: str, shape: WeatherShape) -> None:
        self._seed, self._release, self._shape = seed, release, shape
        self._rng = Random(f"weather clients {seed}")  # a text: the same on all platforms
        self.cluster = self._cluster()
        self.consumers = tuple(
            group
            for group in (self._billing(), self._stepping(), self._news(), self._reading())
            if group.members
        )
        self.loads = (self._plain_load(), self._other_load(), self._steps_load(), *self._large())
        if shape.acting_master:
            self.loads = (*self.loads, self._waiting_load())

    def has(self, feature: str) -> bool:
        """Whether this seed has *feature*."""
        block, at = divmod(self._seed, SEEDS_A_BLOCK)
        places = Random(f"weather {feature} {block}").sample(range(SEEDS_A_BLOCK), SEEDS_A_BLOCK)
        return places[at] < FEATURES[feature].chance * SEEDS_A_BLOCK

    def _cluster(self) -> ClusterPlan:
        shape = self._shape
        settings: dict[str, Any] = {}
        if self.has("sync_flush"):
            settings |= {"flush_disk_type": "SYNC_FLUSH", "store": "store"}
        if self._is_checked_quickly:
            settings |= QUICK_CHECKS
        if self.has("sql"):
            settings |= {"property_filter": True}
        if shape.slaves:
            settings |= self._replication()
        of_controllers = {}
        if shape.controllers:
            settings |= self._promises()
            of_controllers = self._elections()
        return ClusterPlan(
            brokers=shape.brokers,
            slaves=shape.slaves,
            controllers=shape.controllers,
            controller_settings=of_controllers,
            acting_master=shape.acting_master,
            name_servers=shape.name_servers,
            release=self._release,
            broker_settings=settings,
        )

    def _replication(self) -> dict[str, Any]:
        """Masters wait for slaves or not, slaves of 5.x may be read; by a chance of its own."""
        rng = Random(f"weather replication {self._seed}")
        settings: dict[str, Any] = {}
        if rng.random() < SYNC_MASTERS:
            settings |= {"broker_role": "SYNC_MASTER"}
            settings |= {"in_sync_replicas": rng.choice((1, 2, 2))} if self._is_5x else {}
        if rng.random() < READABLE_SLAVES and self._is_5x:
            settings |= {"slave_read": True}
        if self._shape.acting_master:  # which lets slaves be read, and send messages away
            settings |= {"slave_read": False} if rng.random() < UNREADABLE else {}
            settings |= {"remote_escape": False} if rng.random() < WITHOUT_ESCAPE else {}
        return settings

    def _promises(self) -> dict[str, Any]:
        """With controllers all of the sync-state set acknowledges, or not; by its own chance."""
        rng = Random(f"weather promises {self._seed}")
        settings: dict[str, Any] = {"in_sync_replicas": rng.choice((1, 2))}
        if rng.random() < ALL_ACK:
            settings |= {"all_ack_in_sync_state_set": True}
        if settings["in_sync_replicas"] == 2 and rng.random() < FENCED:
            settings |= {"min_in_sync_replicas": 2}
        return settings

    def _elections(self) -> dict[str, Any]:
        """Controllers elect brokers that lack messages, or not; by their own chance."""
        rng = Random(f"weather elections {self._seed}")
        return {"elect_unclean_master": True} if rng.random() < UNCLEAN else {}

    # Groups ----------------------------------------------------------------------------------

    def _billing(self) -> ConsumersPlan:
        """Concurrent consumers."""
        listener = ListenerPlan(
            fails=0.02,
            raises=0.02 if self.has("raises") else 0.0,
            always_fails=0.05 if self.has("poison") else 0.0,
            **self._takes("slow", self._capacity_ms(THREADS, 1.0)),
        )
        settings = {**self._starts(), **self._pulls()}
        if self.has("poison"):
            settings["reconsume_times_max"] = self._rng.choice((1, 2))
        if self.has("consume_batches"):
            settings["consume_batch_max"] = self._rng.choice((2, 4, 16))
        if self.has("flow_control"):
            few = self._rng.choice(("queue_messages_max", "queue_span_max"))
            settings[few] = self._rng.choice((2, 5, 20))
        return self._group(
            ConsumersPlan(
                group="billing",
                topics=self._topics(filtered=0.6),
                strategy=self._strategy(),
                listener=listener,
                settings=settings,
            ),
            self._shape.billing,
        )

    def _stepping(self) -> ConsumersPlan:
        """Orderly consumers."""
        listener = ListenerPlan(
            fails=0.01 if self.has("raises") else 0.0,
            always_fails=0.03 if self.has("poison_steps") else 0.0,
            **self._steps_take(),
        )
        settings = {**self._starts(), **self._pulls()}
        if self.has("poison_steps"):
            settings["reconsume_times_max"] = self._rng.choice((1, 2))
        return self._group(
            ConsumersPlan(
                group="stepping",
                topics={"steps": "*"},
                orderly=True,
                listener=listener,
                settings=settings,
            ),
            self._shape.stepping,
            least=2 if self.has("orderly_death") else 1,
        )

    def _steps_take(self) -> dict[str, Any]:
        most_ms = self._capacity_ms(1, 0.3 * HOT)
        takes = self._takes("slow_steps", most_ms)
        return {"takes_ms": most_ms, "jitter_ms": most_ms} if self.has("busy_steps") else takes

    def _news(self) -> ConsumersPlan:
        """Broadcasting consumers."""
        return self._group(
            ConsumersPlan(
                group="news",
                topics={"orders": self._expression(1.0 if self.has("news_tags") else 0.0)},
                broadcast=True,
                listener=ListenerPlan(**self._takes("slow", self._capacity_ms(THREADS, 0.7))),
                settings={
                    **self._pulls(),
                    **({"offset_folder": "offsets"} if self._has_folder else {}),
                },
            ),
            self._shape.news,
            few=True,
        )

    @property
    def _has_folder(self) -> bool:
        return self.has("folder") or self.has("news_restart")

    def _reading(self) -> ConsumersPlan:
        """Lite pull consumers, without tags: filtered messages at the end are never committed.

        Upstream: DefaultLitePullConsumerImpl.poll commits only messages that were polled.  A held
        pull keeps a thread: pulls are held shortly if there may be more queues than threads.
        """
        seeks: tuple[int, ...] = ()
        if self.has("seeks"):
            last_ms = self._shape.seconds * 1_000
            seeks = tuple(sorted(self._rng.randrange(8_000, last_ms) for _ in range(2)))
        return self._group(
            ConsumersPlan(
                group="reading",
                topics=self._topics(filtered=0.0, by_sql=False),
                kind="lite_pull",
                listener=self._reader(),
                settings={**self._starts(), **(SHORT_HOLD if self._shape.brokers > 3 else {})},
                seeks_ms=seeks,
                seek_back_max=10,
            ),
            self._shape.reading,
            few=True,
        )

    def _group(
        self, plan: ConsumersPlan, most: int, *, few: bool = False, least: int = 1
    ) -> ConsumersPlan:
        """*plan* with its number of members, their start times, and one of another release."""
        most = min(most, self._shape.members_max)
        members = max(self._members(most, few=few), min(least, most))
        settings_of = {}
        can_mix = plan.kind != "lite_pull" or self._is_5x
        if self.has("mixed_members") and members > 1 and can_mix:
            settings_of = {f"{plan.group}-{members}": {"release": self._other_release}}
        every_ms = LATE_MS // members if self.has("late_members") and members else 0
        is_late = self.has("late_groups") and not plan.broadcast and not every_ms
        return msgspec.structs.replace(
            plan,
            members=members,
            settings_of=settings_of,
            starts_ms=self._late_ms(plan.group) if is_late else 0,
            every_ms=every_ms,
        )

    def _late_ms(self, group: str) -> int:
        drawn_ms = Random(f"weather {group} {self._seed}").randrange(LATE_GROUP_MS)
        return min(drawn_ms, LATEST_GROUP_MS)

    def _members(self, most: int, *, few: bool) -> int:
        """From 1 to *most*: half as many members are twice as likely; with *few*, four times."""
        numbers = range(1, most + 1)
        weights = [1 / number ** (1 + few) for number in numbers]
        return self._rng.choices(numbers, weights)[0] if most else 0

    @property
    def _is_5x(self) -> bool:
        """Whether brokers have timers, and accept pulls of lite pull consumers of 5.x (361).

        Upstream: BrokerController.registerProcessor, which has no LITE_PULL_MESSAGE in 4.9.7.
        """
        return Release.parse(self._release) >= FIVE

    @property
    def _other_release(self) -> str:
        return OTHER_RELEASE.get(self._release, "4.9.7")

    def _starts(self) -> dict[str, Any]:
        first = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
        return first if self.has("first_offset") else {}

    def _pulls(self) -> dict[str, Any]:
        few = self._rng.choice((1, 2, 5))
        return {"pull_batch_max": few} if self.has("small_pulls") else {}

    def _topics(self, filtered: float, *, by_sql: bool = True) -> dict[str, str]:
        more = {"steps": "*"} if self.has("two_topics") else {}
        return {"orders": self._expression(filtered, by_sql=by_sql), **more}

    def _expression(self, filtered: float, *, by_sql: bool = True) -> str:
        taken = sorted(self._rng.sample(TAGS, 2))
        is_filtered = self._rng.random() < filtered
        if by_sql and self.has("sql") and filtered < 1:
            return f"SQL92: {Random(f'weather sql {self._seed}').choice(SQL)}"
        return " || ".join(taken) if is_filtered and self.has("tags") else "*"

    def _strategy(self) -> str:
        other = self._rng.choice(("by_circle", "consistent_hash"))
        return other if self.has("strategy") else "averagely"

    def _capacity_ms(self, threads: int, share: float) -> float:
        """The longest time per message for *threads* that get *share* of all messages."""
        return min(LISTENER_MS_MAX, BUSY * threads * 1_000 / (share * self._shape.rate))

    def _takes(self, feature: str, most_ms: float) -> dict[str, Any]:
        """Short times are as frequent as long ones; the jitter is as long, or twice as long."""
        takes_ms = round(most_ms ** self._rng.uniform(0.2, 1.0) / 2, 1)
        jitter = self._rng.choice((1, 2))
        if not self.has(feature):
            return {"takes_ms": min(2.0, most_ms)}
        return {"takes_ms": takes_ms, "jitter_ms": takes_ms * jitter}

    def _reader(self) -> ListenerPlan:
        """The application of a lite pull member; it may hang for ``HANGING`` of the time.

        That is the share of a single member that gets all messages; consuming them takes more.
        """
        takes = self._takes("slow", self._capacity_ms(1, 1.0))
        if self.has("slow_reader"):
            most_ms = round(self._capacity_ms(1, 1.0), 1)
            hangs = HANGING * 1_000 / (HANG_MS * self._shape.rate)
            takes = {"takes_ms": most_ms, "jitter_ms": most_ms, "hangs": hangs, "hang_ms": HANG_MS}
        return ListenerPlan(**takes)

    # Loads -----------------------------------------------------------------------------------

    def _plain_load(self) -> LoadPlan:
        sends_on = self.has("sends_on") and self._shape.rate >= RATE_MIN
        return LoadPlan(
            topic="orders",
            rate=self._shape.rate * 0.4,
            producers=1 if sends_on else 2,
            burst=self._burst(alone=sends_on),
            batch=self._rng.choice((2, 3, 8)) if self.has("batches") else 1,
            until_ms=self._until_ms + SENDS_ON_MS * sends_on,
            tags=self._tags,
            properties=self._properties,
            settings=self._avoids(always=sends_on),
            **self._sizes(),
        )

    def _waiting_load(self) -> LoadPlan:
        """Messages that are due, or asked about, later: maybe at a slave that acts."""
        rng = Random(f"weather waiting {self._seed}")
        rate, until_ms = self._shape.rate * 0.3, self._until_ms
        kind = rng.choice(("timers", "levels", "transactions"))
        if kind == "transactions":
            return LoadPlan(
                topic="orders",
                rate=rate,
                mode="transaction",
                until_ms=until_ms,
                tags=self._tags,
                properties=self._properties,
                crashes=UNENDED,
            )
        waits: dict[str, Any] = {"timer_ms": WAITS_MS}
        if kind == "levels":
            waits = {"delay_levels": WAIT_LEVELS}
        return LoadPlan(
            topic="orders",
            rate=rate,
            until_ms=until_ms,
            tags=self._tags,
            properties=self._properties,
            **waits,
        )

    def _burst(self, *, alone: bool) -> int:
        """A producer that is *alone* has no bursts: their sends begin at random queues each."""
        drawn = self._rng.choice((1, 1, 10, 50))
        return 1 if alone else drawn

    def _other_load(self) -> LoadPlan:
        mode: Literal["sync", "async", "oneway"] = "async" if self.has("async") else "sync"
        settings, delays = self._avoids(), self._delays()
        if self.has("mixed_producers"):
            settings["release"] = self._other_release
        if self.has("transactions"):
            return LoadPlan(
                topic="orders",
                rate=self._shape.rate * 0.3,
                mode="transaction",
                until_ms=self._until_ms,
                tags=self._tags,
                properties=self._properties,
                settings=settings,
                rollbacks=ROLLBACKS,
                unknowns=UNKNOWNS,
                crashes=CRASHES,
                **self._slow_decisions(),
            )
        return LoadPlan(
            topic="orders",
            rate=self._shape.rate * 0.3,
            mode="oneway" if self.has("one_way") else mode,
            until_ms=self._until_ms,
            tags=self._tags,
            properties=self._properties,
            keys=5 if self.has("keys") else 0,
            settings=settings,
            **delays,
        )

    @property
    def _is_checked_quickly(self) -> bool:
        return self.has("transactions") and self.has("quick_checks")

    def _slow_decisions(self) -> dict[str, Any]:
        if not self._is_checked_quickly:
            return {}
        is_slow = Random(f"weather decisions {self._seed}").random() < 0.5
        slow = {"decides_ms": DECIDES_MS} if is_slow else {}
        return {"raises": RAISES, "undecided": UNDECIDED, **slow}

    def _steps_load(self) -> LoadPlan:
        return LoadPlan(
            topic="steps",
            rate=self._shape.rate * 0.3,
            keys=8,
            key_skew=0.8,
            until_ms=self._until_ms,
            **self._sizes(),
        )

    def _large(self) -> list[LoadPlan]:
        """A load of large messages: half of the seeds with it send them uncompressed."""
        if not self.has("large"):
            return []
        size_bytes = self._rng.choice((*LARGE_BYTES, self._rng.randrange(*LARGE_BYTES)))
        never: dict[str, Any] = {"compress_bytes_min": 1 << 30}
        load = LoadPlan(
            topic="orders",
            rate=0.1,
            from_ms=self._rng.randrange(self._until_ms // 6, self._until_ms // 2),
            count_max=self._rng.choice((1, 2)),
            size_bytes=size_bytes,
            tags=self._tags,
            properties=self._properties,
            settings=self._rng.choice((never, {})),
        )
        return [load]

    @property
    def _until_ms(self) -> int:
        return self._shape.seconds * 1_000

    @property
    def _tags(self) -> tuple[str, ...]:
        return TAGS if self.has("tags") else ()

    @property
    def _properties(self) -> dict[str, str | tuple[str, ...]]:
        return {"region": REGIONS, "amount": AMOUNTS} if self.has("sql") else {}

    def _avoids(self, *, always: bool = False) -> dict[str, Any]:
        if not self.has("avoids_slow_brokers") and not always:
            return {}
        detects = {"start_detector_enable": True} if self.has("detects") else {}
        return {"send_latency_fault_enable": True, **detects}

    def _sizes(self) -> dict[str, Any]:
        return {"size_jitter_bytes": 8_192} if self.has("sizes") else {}

    def _delays(self) -> dict[str, Any]:
        """Delays of half of the messages."""
        levels = tuple(sorted(self._rng.sample((1, 2, 3, 4), 2)))
        is_by_time = self._rng.random() < 0.5 and self._is_5x
        if not self.has("delays"):
            return {}
        if is_by_time:
            waits_ms = [self._rng.choice((1_000, 5_000, 10_000, 30_000)) for _ in range(2)]
            return {"timer_ms": (0, 0, *waits_ms)}
        return {"delay_levels": (0, 0, *levels)}
