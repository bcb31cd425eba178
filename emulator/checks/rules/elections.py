"""Elections: an epoch has one master, whatever the controllers and the links do.

The master epoch is the fence of controller mode: brokers follow the largest that they know.  A
replaced master goes on in its old epoch until it is notified; the messages that it acknowledges
meanwhile are lost, and counted.  Two masters of one epoch would acknowledge for ever.
"""

from __future__ import annotations

from rocketmq_emulator.checks.state.broker_roles import name_of
from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric, key_of
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    ElectionFailed,
    MasterElected,
    MessageSent,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    SyncStateSetChanged,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

Epoch = tuple[str, int]  # of a broker name


class OneMasterAnEpoch(Checker):
    """ReplicasInfoManager.electMaster, ReplicasManager.changeToMaster."""

    name = "one_master_an_epoch"
    rule = (
        "in one master epoch one broker of a name is elected, and that broker alone takes the "
        "role of the master"
    )
    metrics = (
        Metric("elections", "elections", "of a master of this name", "node"),
        Metric(
            "failed_elections",
            "elections",
            "that found no broker which may be the master: each takes an epoch",
            "node",
        ),
        Metric(
            "acked_by_replaced",
            "messages",
            "acknowledged by a master after another one had been elected, and in no queue",
            "node",
        ),
    )
    needs = (BrokerRoleChanged,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._elected: dict[Epoch, tuple[int, EntryKey]] = {}
        self._masters: dict[Epoch, tuple[str, EntryKey]] = {}  # the node that took the role

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MasterElected: self._was_elected,
            ElectionFailed: self._failed,
            BrokerRoleChanged: self._role_changed,
            MessageSent: self._sent,
        }

    def _was_elected(self, fact: MasterElected, entry: Entry) -> None:
        self.count_tried()
        self.add_to_metric("elections", 1, fact.broker)
        epoch = fact.broker, fact.master_epoch
        before = self._elected.setdefault(epoch, (fact.broker_id, key_of(entry)))
        if before[0] != fact.broker_id:
            self.report_violation(
                f"{before[1].node} elected broker {before[0]} of {fact.broker} in epoch "
                f"{fact.master_epoch}, and {entry.node} broker {fact.broker_id}",
                before[1],
                entry,
                node=entry.node,
            )

    def _failed(self, fact: ElectionFailed, entry: Entry) -> None:
        self.add_to_metric("failed_elections", 1, fact.broker)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        if fact.role != "master":
            return
        self.count_tried()
        node = self.cluster.roles.true_node(entry.node, entry.mono_us)
        epoch = entry.node, fact.master_epoch
        before = self._masters.setdefault(epoch, (node, key_of(entry)))
        if before[0] != node:
            self.report_violation(
                f"{before[0]} and {node} are masters of {entry.node} in epoch "
                f"{fact.master_epoch}, both",
                before[1],
                entry,
                node=node,
            )

    def _sent(self, fact: MessageSent, entry: Entry) -> None:
        if self.cluster.roles.is_of_replaced(fact):
            self.add_to_metric("acked_by_replaced", 1, fact.queue.broker)


# Slaves in the sync-state set --------------------------------------------------------------


class SilentSlavesLeave(Checker):
    """How long a slave that hangs, or has ended, stays in the sync-state set.

    While it is in the set, a master with allAckInSyncStateSet acknowledges nothing, and nothing
    new can be read.  Upstream: AutoSwitchHAService.maybeShrinkSyncStateSet, removeConnection.
    """

    name = "silent_slaves_leave"
    is_measure = True
    rule = "a slave that copies nothing any more leaves the sync-state set soon"
    metrics = (
        Metric(
            "silent_in_set_s",
            "s",
            "the longest from the pause or the end of a slave to the set without it",
            "node",
            "max",
        ),
    )
    needs = (SyncStateSetChanged,)
    needs_whole = False

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._silent_us: dict[str, int] = {}  # by slave in the set: since when

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            NodePaused: lambda fact, entry: self._silent(fact.node, entry),
            NodeKilled: lambda fact, entry: self._silent(fact.node, entry),
            NodeResumed: lambda fact, _: self._silent_us.pop(fact.node, None),
            NodeStarted: lambda _, entry: self._silent_us.pop(entry.node, None),
            SyncStateSetChanged: self._changed,
        }

    def _silent(self, node: str, entry: Entry) -> None:
        slave = self.cluster.replicas.slaves.get(node)
        if slave is not None and node in self.cluster.in_sync.slaves_of(slave.master):
            self._silent_us.setdefault(node, entry.mono_us)

    def _changed(self, fact: SyncStateSetChanged, entry: Entry) -> None:
        members = set(self.cluster.in_sync.slaves_of(fact.broker))
        for node, since_us in list(self._silent_us.items()):
            if node not in members and name_of(node) == fact.broker:
                del self._silent_us[node]
                known = self.measured.get(f"silent_in_set_s.{fact.broker}", 0.0)
                seconds = (entry.mono_us - since_us) / 1e6
                self.set_metric("silent_in_set_s", max(known, seconds), fact.broker)
