"""Notices of brokers: a group that changes is rebalanced at once, not with the next timer."""

from __future__ import annotations

from typing import NamedTuple

from emulator.checks.checker import Shared, key_of
from emulator.checks.folding import Table
from emulator.checks.monitors.monitor import Monitor
from emulator.checks.monitors.paths import last_on_the_way_us
from emulator.checks.monitors.standing import (
    HEARTBEAT_US,
    LATE_US,
    MERGED_US,
    NOTICE_US,
    PASS_US,
    ROUTE_US,
)
from emulator.checks.scene import Seat
from emulator.facts import MemberJoined, MemberLeft, NodeStarted, RebalancePassed
from emulator.journal import Entry, EntryKey


class _MemberChange(NamedTuple):
    """A member came or went, and a pass that knows it is due."""

    since: EntryKey
    has_come: bool
    is_disputed: bool = False  # a pass came at once, and may have asked another broker


class NoticesWake(Monitor):
    """Client invariant 35.  Brokers that are set to merge notices ring every 15 s."""

    name = "notices_wake"
    rule = (
        "a member that joins or leaves wakes all members that its broker lists: they rebalance "
        "each of their topics at once (client invariant 35)"
    )
    invariants = (35,)
    needs = (MemberJoined, RebalancePassed)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._peers: dict[tuple[str, str], dict[str, set[str]]] = {}  # broker, group: client
        self._began_us: dict[str, int] = {}  # by broker: its last start
        # By broker, group and client: when it was listed first since then.
        self._listed_us: dict[tuple[str, str, str], int] = {}
        # By group and client: when it passed each of its topics, last.
        self._topics: dict[tuple[str, str], dict[str, int]] = {}
        # By group and client: who changed, and a pass of which topic is due: "" is any.
        self._woken: dict[tuple[str, str], dict[tuple[str, str], _MemberChange]] = {}

    def table(self) -> Table:
        """What it reads."""
        return {
            MemberJoined: self._joined,
            MemberLeft: self._left,
            NodeStarted: self._broker_started,
            RebalancePassed: self._passed,
        }

    def end(self) -> None:
        """A member that was to be woken and never passed again was not."""
        for (group, client), changes in self._woken.items():
            for (changed, _), change in changes.items():
                if self.scene.last is not None:
                    self._looks(group, client, changed, change, self.scene.last)

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        clients = self._peers.setdefault((entry.node, fact.group), {})
        if fact.message_model != "BROADCASTING":
            others = [each for each in clients if each != fact.client]
            self._wakes(fact, others, entry, has_come=True)
        clients.setdefault(fact.client, set()).add(fact.peer)
        self._listed_us.setdefault((entry.node, fact.group, fact.client), entry.mono_us)

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        clients = self._peers.get((entry.node, fact.group), {})
        clients.get(fact.client, set()).discard(fact.peer)
        if not clients.get(fact.client):
            clients.pop(fact.client, None)
        if fact.reason != "expired":  # that notifies nobody
            self._wakes(fact, list(clients), entry, has_come=fact.client in clients)

    def _broker_started(self, fact: NodeStarted, entry: Entry) -> None:
        """A broker that was started again lists nobody."""
        self._began_us[entry.node] = entry.mono_us
        for known in [each for each in self._peers if each[0] == entry.node]:
            del self._peers[known]
        for listed in [each for each in self._listed_us if each[0] == entry.node]:
            del self._listed_us[listed]

    def _wakes(
        self, fact: MemberJoined | MemberLeft, clients: list[str], entry: Entry, *, has_come: bool
    ) -> None:
        if fact.group in self.scene.broadcast:
            return
        for (group, _), changes in self._woken.items():
            if group == fact.group:  # what it did before is over, also for those not listed now
                for over in [each for each in changes if each[0] == fact.client]:
                    del changes[over]
        for client in clients:
            changes = self._woken.setdefault((fact.group, client), {})
            known = self._topics.get((fact.group, client), {})
            since_us = entry.mono_us - 2 * PASS_US - LATE_US  # what it passes again and again
            topics = [topic for topic, at_us in known.items() if at_us >= since_us]
            for topic in topics or [""]:
                changes[fact.client, topic] = _MemberChange(key_of(entry), has_come)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        """Of the changes that this pass knows: when it came."""
        seat = self.scene.seat(fact.group, entry.node)
        if seat is None:
            return
        known = fact.group, seat.started.client
        self._topics.setdefault(known, {})[fact.topic] = entry.mono_us
        changes = self._woken.get(known, {})
        for (client, topic), change in list(changes.items()):
            if topic not in ("", fact.topic):
                continue
            if (client in fact.members) is change.has_come:
                del changes[client, topic]
                self._looks(fact.group, seat.started.client, client, change, entry)
            elif self._is_disputed(*known, client, has_come=change.has_come):
                is_at_once = entry.mono_us - change.since.mono_us <= NOTICE_US
                is_disputed = change.is_disputed or is_at_once
                changes[client, topic] = change._replace(is_disputed=is_disputed)

    def _is_unlisted(self, group: str, seat: Seat, since: EntryKey) -> bool:
        """A broker was started again, and had not had the member's heartbeat: it may be asked."""
        for topic in seat.topics:
            for broker in self.scene.topics.brokers_of(topic):
                began_us = self._began_us.get(broker, 0)
                listed_us = self._listed_us.get((broker, group, seat.started.client), 0)
                if not seat.from_us < began_us < since.mono_us:
                    continue
                quiet_us = self.scene.undisturbed_us((seat.node, broker), began_us, since.mono_us)
                is_listed = began_us < listed_us < since.mono_us
                if not is_listed and quiet_us <= ROUTE_US + HEARTBEAT_US + LATE_US:
                    return True
        return False

    def _is_disputed(self, group: str, client: str, changed: str, *, has_come: bool) -> bool:
        """Brokers that list *client* disagree about *changed*: its pass may ask any of them."""
        listing = (
            clients
            for (broker, of), clients in self._peers.items()
            if of == group and client in clients and not self.scene.is_gone(broker)
        )
        return any((changed in clients) is not has_come for clients in listing)

    def _looks(
        self, group: str, client: str, changed: str, change: _MemberChange, entry: Entry
    ) -> None:
        since = change.since
        seats = [s for s in self.scene.living(group) if s.started.client == client]
        if len(seats) != 1 or seats[0].started.consumer_kind == "pull":
            return
        if seats[0].from_us > since.mono_us:
            return
        us_max, late_us = self._us_max(), entry.mono_us - since.mono_us
        if (
            us_max is None
            or change.is_disputed
            or self._is_touched(group, client, changed, since, entry)
            or self._is_unlisted(group, seats[0], since)
        ):
            if late_us > NOTICE_US:
                self.excuses()
            return
        self.tries()
        if late_us > us_max:
            self.objects(
                f"{seats[0].node} did not rebalance for {late_us / 1e6:.1f} s after the members "
                f"of {group} had changed",
                since,
                key_of(entry),
                node=seats[0].node,
            )

    def _is_touched(
        self, group: str, client: str, changed: str, since: EntryKey, entry: Entry
    ) -> bool:
        """The notice may be lost: the next pass of the timer knows."""
        brokers = self.scene.topics.brokers
        # Whoever came or went may have reached one broker and not the other, which is asked.
        clients = {
            s.node for s in self.scene.seats[group] if s.started.client in (client, changed)
        }
        touched_us = last_on_the_way_us(self.scene, brokers, clients, entry.mono_us)
        if touched_us < since.mono_us - LATE_US:
            return False
        nodes = {*brokers, *clients}
        return self.scene.undisturbed_us(nodes, since.mono_us, entry.mono_us) <= PASS_US + LATE_US

    def _us_max(self) -> int | None:
        """How long a notice and its pass may take, by the settings of brokers; None: for ever."""
        cluster = self.scene.plan.get("cluster", {})
        all_settings = (
            cluster.get("broker_settings", {}),
            *cluster.get("settings_of", {}).values(),
        )
        if any(not each.get("notify_consumer_ids_changed", True) for each in all_settings):
            return None
        merges = any(not each.get("real_time_notices", True) for each in all_settings)
        return NOTICE_US + MERGED_US * merges
