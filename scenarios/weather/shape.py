"""The shape of weather (size, duration, number of faults), and the planted bugs that it finds.

A checker that never objects proves nothing, and neither does weather in which nothing fails.  So
each quirk (``settings.quirks``) is switched on, and seeds are counted from 1 until a checker
objects; the shape is ``SMALL``.  ``PLANTED`` has these seeds; tests run them with the quirk and
without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from rocketmq_emulator.cluster.spec import CONTROLLERS, SLAVES_MAX
from rocketmq_emulator.settings.quirks import QUIRKS
from rocketmq_emulator.settings.setting_rules import Range, SettingRules, ranges


class WeatherShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster, its clients, and the rates of faults and actions.

    ``weights`` override those of ``FAULTS_BY_CHANCE`` and ``ACTIONS_BY_CHANCE`` by keyword; with
    the weight 0 a fault or action does not occur.
    """

    seconds: int = 60  # with faults; the wait for quiet follows
    brokers: int = 3
    slaves: int = 0  # of each broker; with them more faults: of slaves, their masters and links
    controllers: int = 0  # 0, 1 or 3; with them elections by hand, and faults of controllers
    acting_master: bool = False  # slaves act for masters that are away; more messages wait
    name_servers: int = 2
    members_max: int = 8  # of any group: the number of members is drawn from 1 to this
    billing: int = 8  # members of this group at most; 0: no such group; concurrent push consumers
    stepping: int = 8  # orderly push consumers of steps
    news: int = 3  # broadcasting push consumers of orders
    reading: int = 3  # lite pull consumers of orders
    rate: float = 10.0  # messages a second, over all loads
    faults_per_minute: float = 8.0
    acts_per_minute: float = 3.0
    quiet_s_max: int = 300  # how long the run may take to become quiet
    weights: dict[str, float] = {}

    def __post_init__(self) -> None:
        """Raises ``SettingRefused`` for a number out of its range."""
        RULES.check(self)
        if self.rate <= 0 or self.faults_per_minute < 0 or self.acts_per_minute < 0:
            text = "rate is more than 0; faults_per_minute and acts_per_minute are at least 0"
            raise ValueError(text)
        if self.billing + self.stepping + self.news + self.reading == 0:
            raise ValueError("weather needs a member of at least one group")
        if self.controllers not in CONTROLLERS:
            raise ValueError("weather has 0, 1 or 3 controllers")
        if self.acting_master and not self.slaves:
            raise ValueError("acting_master needs slaves that can act: slaves=1")


RULES = SettingRules(
    ranges(
        (Range(10, 3_600), "seconds quiet_s_max"),
        (Range(1, 26), "brokers"),
        (Range(0, SLAVES_MAX), "slaves"),
        (Range(1, 9), "name_servers"),
        (Range(1, 100), "members_max"),
        (Range(0, 100), "billing stepping news reading"),
    )
)

SMALL = WeatherShape(
    seconds=30, rate=4, brokers=2, members_max=3
)  # the cheapest shape in which each pair of a fault and a state still occurs

ELECTING = msgspec.structs.replace(  # faults begin when slaves have copied the topics
    SMALL, slaves=1, controllers=1, seconds=40
)
WITH_SLAVES = msgspec.structs.replace(SMALL, slaves=1)

SHAPES: Mapping[str, WeatherShape] = {  # ``--set shape=NAME``; other parameters replace its fields
    "default": WeatherShape(),
    "small": SMALL,
    "slaves": WITH_SLAVES,
    # Slaves of 5.x copy offsets once a minute, first after 61 s: masters die after it, too.
    "slaves_longer": msgspec.structs.replace(WITH_SLAVES, seconds=100),
    "acting_masters": msgspec.structs.replace(WITH_SLAVES, acting_master=True),
    "one_controller": ELECTING,
    "three_controllers": msgspec.structs.replace(ELECTING, controllers=3),
}


# Planted bugs, and the first seed of the small shape that finds each ------------------


class Planted(NamedTuple):
    """``seeds``: the first seed that fails, by release; ``checker``: the checker that objects."""

    seeds: Mapping[str, int]
    checker: str
    breaks: str  # words of the rule


PLANTED: Mapping[str, Planted] = {
    "ask_nobody": Planted({"4.9.7": 5, "5.3.3": 5}, "transaction_checks", "asked about in time"),
    "commit_to_first_queue": Planted({"4.9.7": 4, "5.3.3": 4}, "transactions", "as it was sent"),
    "commit_when_pulled": Planted({"4.9.7": 2, "5.3.3": 2}, "commits", "client invariant 43"),
    "deliver_rollbacks": Planted(
        {"4.9.7": 4, "5.3.3": 4}, "transactions", "seen after its commit only"
    ),
    "filter_no_woken_pulls": Planted({"4.9.7": 4, "5.3.3": 4}, "filters", "by the SQL92"),
    "ignore_ends": Planted({"4.9.7": 4, "5.3.3": 4}, "transactions", "is carried out"),
    "ignore_lock": Planted({"4.9.7": 1, "5.3.3": 1}, "locks", "client invariant 51"),
    "keep_offsets": Planted({"4.9.7": 2, "5.3.3": 1}, "commits", "client invariant 56"),
    "keep_queues": Planted({"4.9.7": 1, "5.3.3": 1}, "ownership", "a queue has one owner"),
    "lose_bells": Planted({"4.9.7": 1, "5.3.3": 1}, "wakes", "a message wakes the held pulls"),
    "lose_ends": Planted({"4.9.7": 4, "5.3.3": 4}, "transaction_checks", "asked about in time"),
    "retry_on_another_queue": Planted(
        {"4.9.7": 2, "5.3.3": 2}, "async_retries_stay", "client invariant 16"
    ),
}
PLANTED_AT_SLAVES: Mapping[str, Planted] = {  # the same shape, with a slave of each broker
    "acknowledge_uncopied": Planted({"4.9.7": 1, "5.3.3": 1}, "copies", "as it waits for"),
    "copy_no_offsets": Planted({"4.9.7": 70}, "copied_offsets", "when a slave last copied"),
}
PLANTED_AT_ELECTIONS: Mapping[str, Planted] = {  # ``ELECTING``: with a slave and a controller
    "truncate_nothing": Planted({"5.3.3": 3}, "slave_logs", "truncated to that"),
    "two_masters": Planted({"5.3.3": 1}, "one_master_an_epoch", "one broker of a name"),
}
PLANTED_AT_ACTING: Mapping[str, Planted] = {  # these slaves act as masters
    "lose_escaped": Planted({"5.3.3": 1}, "escapes", "is stored there"),
}
PLANTED_ANYWHERE = {*PLANTED, *PLANTED_AT_SLAVES, *PLANTED_AT_ELECTIONS, *PLANTED_AT_ACTING}
assert QUIRKS.keys() >= PLANTED_ANYWHERE, "each planted bug is a quirk"
