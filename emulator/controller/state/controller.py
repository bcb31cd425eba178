"""A controller as a value: its tables, its log, its elections, and the outlet to brokers.

``commit`` is the place between a decision and the tables: the event is logged, then applied, then
noted, then the reply is sent.  For a controller that is alone its own log is enough.  The leader
of a group applies the event at once, so that the next decision counts on it; all that others can
see of it (the reply, the fact, the notice to brokers) waits until a majority has the event.  If
the leader gives up before, it forgets what it had applied, and its callers ask another.

The shell calls ``closed`` for closed connections, and both scans at intervals.  No method waits.

Upstream: ControllerManager, DLedgerController, DefaultBrokerHeartbeatManager.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from rocketmq_emulator.controller.state.events import (
    AddressUpdating,
    AnyEvent,
    BrokerDataCleaning,
    BrokerIdApplying,
    EventLog,
    MasterElecting,
    SyncStateSetAltering,
    TablesSaved,
)
from rocketmq_emulator.controller.state.group import ControllerGroup
from rocketmq_emulator.controller.state.group_log import GroupLog
from rocketmq_emulator.controller.state.live_brokers import (
    BrokerIdentity,
    BrokerLiveInfo,
    BrokerLiveTable,
    IsAlive,
)
from rocketmq_emulator.controller.state.replicas_info import (
    NO_BROKER,
    Decision,
    ReplicasInfoTables,
    sync_state_set_of,
)
from rocketmq_emulator.controller.state.settings import ControllerSettings
from rocketmq_emulator.disk.port import WRITE_ERRORS
from rocketmq_emulator.facts import (
    BrokerDataCleaned,
    BrokerIdApplied,
    ControllerLeads,
    ControllerReset,
    ElectionFailed,
    Fact,
    MasterElected,
    ReplicaAddressChanged,
    ReplicaAlive,
    ReplicaGone,
    SyncStateSetChanged,
)
from rocketmq_emulator.net.held_calls import UpTo
from rocketmq_emulator.net.results import Peer, Refusal, Reply, Result, Wait
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.requests.controller import (
    ElectMasterRequest,
    NotifyBrokerRoleChangedRequest,
)
from rocketmq_emulator.settings.allowed_values import peers_in

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.protocol.requests.nameserver import BrokerHeartbeatRequest
    from rocketmq_emulator.settings.config import ControllerConfig

# The arguments are the broker's address, the header and the body of a one-way request.
PushToAddress: TypeAlias = Callable[[str, NotifyBrokerRoleChangedRequest, bytes], object]


COMMITTED = "committed"  # the watermark of a group's log
COMMIT_MS_MAX = 5_000  # DLedgerController.WAIT_TIMEOUT_SECONDS
NOT_LEADER = "The controller is not in leader state"  # DLedgerController.appendEvent
NO_MAJORITY = "no majority of the controllers has stored this: it may still happen"


def _nothing(*_: object) -> None:
    """The default of the outlets."""


def _copy(tables: TablesSaved) -> TablesSaved:
    """*tables*, sharing nothing that changes."""
    return msgspec.json.decode(msgspec.json.encode(tables), type=TablesSaved)


def no_push(_address: str, _header: NotifyBrokerRoleChangedRequest, _body: bytes) -> None:
    """The default ``push``, which sends nothing."""


class Controller:
    """State of one controller, read from *disk*.  Raises ``StoreDamaged``.

    Set ``push`` to let it notify brokers of their roles.  *rng* spreads the elections of a group,
    and *now_ms* is when it starts.
    """

    def __init__(
        self,
        config: ControllerConfig,
        *,
        disk: Disk,
        note: Note,
        push: PushToAddress = no_push,
        rng: random.Random | None = None,
        now_ms: int = 0,
    ) -> None:
        rng = rng or random.Random(0)
        self.settings = ControllerSettings(config)
        self.release = config.parsed_release
        self._is_jraft = config.controller_type == "jRaft"
        self.note = note
        self.push = push
        self.on_committed: Callable[[int], object] = _nothing  # up to this entry of the group
        self.on_gave_up: Callable[[], object] = _nothing  # to lead: nothing more is committed
        self._begin()
        self.group: ControllerGroup | None = None
        self._log: EventLog | None = None
        peers = peers_in(config.peers)
        if len(peers) > 1:
            self._join(GroupLog(disk, config.events_max), peers, rng, now_ms)
            return
        self._log = EventLog(disk, config.events_max)
        for event in self._log.load():
            self.replicas.apply(event)

    def _join(
        self, log: GroupLog, peers: Mapping[str, str], rng: random.Random, now_ms: int
    ) -> None:
        own = self.settings.config.self_id
        group = ControllerGroup(
            own, [other for other in peers if other != own], log, rng=rng, now_ms=now_ms
        )
        self.group = group
        group.on_committed = self._committed
        group.on_replaced = self._replaced
        group.on_role_changed = self._role_changed
        self._replaced(log.snapshot.tables)

    def _begin(self) -> None:
        self._applied = 0  # the last entry of the group's log that the tables have
        self._at_commit: deque[tuple[int, Callable[[], object]]] = deque()
        config = self.settings.config
        self.live = BrokerLiveTable(config.live_brokers_max)
        self.replicas = ReplicasInfoTables(
            release=self.release, groups_max=config.groups_max, replicas_max=config.replicas_max
        )

    def reset(self, _now_ms: int) -> None:
        """Reset all state, on the disk too.  Raises ``WRITE_ERRORS``: nothing is reset.

        In a group the leader does so for all, and the others raise ``Refusal``.
        """
        self.check_leads()
        self.settings.reset()
        if self.group is not None:
            self.commit(Decision(Reply(), TablesSaved()))
            self.note(ControllerReset())
            return
        assert self._log is not None, "it is alone"
        self._log.replace(TablesSaved())
        self._begin()
        self.note(ControllerReset())

    # Decisions ------------------------------------------------------------------------

    def commit(self, decision: Decision) -> Reply:
        """The reply of *decision*, once its event is on the disk, applied and noted.

        In a group it is to be passed through ``answered``.
        Raises ``Refusal`` if the disk fails: nothing has changed.
        """
        event = decision.event
        if event is None:
            return decision.reply
        try:
            if self.group is not None:
                self._propose(self.group, event)
                return decision.reply
            assert self._log is not None, "it is alone"
            if self._log.is_long:
                self._log.replace(self.replicas.saved())
            self._log.append(event)
        except WRITE_ERRORS as error:
            remark = f"the controller's disk cannot be written: {error}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from error
        self.replicas.apply(event)
        if (fact := _fact(event, self.replicas)) is not None:
            self.note(fact)
        return decision.reply

    @property
    def leads(self) -> bool:
        """Whether it decides: it is alone, or leads its group."""
        return self.group is None or self.group.may_decide

    def check_leads(self) -> None:
        """Raises ``Refusal`` unless this controller decides."""
        if not self.leads:
            raise Refusal(ResponseCode.CONTROLLER_NOT_LEADER, NOT_LEADER)

    def answered(self, reply: Reply, now_ms: int) -> Result:
        """*reply* when all that it may count on is committed; or why that did not come about."""
        group = self.group
        if group is None or group.committed >= group.log.end:
            return reply

        def resumed(_now_ms: int, expired: bool) -> Reply:
            if not expired:
                return reply
            if group.may_decide:
                return Reply(code=ResponseCode.SYSTEM_ERROR, remark=NO_MAJORITY)
            return Reply(code=ResponseCode.CONTROLLER_NOT_LEADER, remark=NOT_LEADER)

        return Wait(UpTo(COMMITTED, group.log.end), now_ms + COMMIT_MS_MAX, resumed)

    # The log of a group ---------------------------------------------------------------

    def _propose(self, group: ControllerGroup, event: AnyEvent) -> None:
        self._applied += 1  # ``propose`` commits at once if nobody else is needed
        self._apply_as_leader(self._applied, event)
        try:
            group.propose(event)
        except WRITE_ERRORS:
            self._forget_uncommitted(group)
            raise

    def _apply_as_leader(self, index: int, event: AnyEvent) -> None:
        self.replicas.apply(event)
        if (fact := _fact(event, self.replicas)) is not None:
            self._at_commit.append((index, partial(self.note, fact)))

    def _committed(self, index: int, event: AnyEvent | None) -> None:
        if index > self._applied:
            self._applied = index
            if event is not None:
                self.replicas.apply(event)
        while self._at_commit and self._at_commit[0][0] <= index:
            self._at_commit.popleft()[1]()
        self.on_committed(index)
        group = self.group
        assert group is not None, "it calls this"
        if group.log.is_long and index == group.log.end:
            with suppress(*WRITE_ERRORS):  # a later entry tries again
                group.compact(_copy(self.replicas.saved()))

    def _role_changed(self) -> None:
        """A new leader counts on all that is in its log; an old one on what is committed."""
        group = self.group
        assert group is not None, "it calls this"
        if group.role != "leader":
            self._forget_uncommitted(group)
            self.on_gave_up()
            return
        self.note(ControllerLeads(group.self_id, group.term))
        for place, entry in enumerate(group.log.after(self._applied), self._applied + 1):
            if entry.event is not None:
                self._apply_as_leader(place, entry.event)
        self._applied = group.log.end

    def _forget_uncommitted(self, group: ControllerGroup) -> None:
        self._at_commit.clear()
        if self._applied > group.committed:
            entries = group.log.after(group.log.snapshot.index)
            self._replaced(group.log.snapshot.tables)
            self._applied = group.committed
            for entry in entries[: group.committed - group.log.snapshot.index]:
                if entry.event is not None:
                    self.replicas.apply(entry.event)

    def _replaced(self, tables: TablesSaved) -> None:
        assert self.group is not None, "it calls this"
        self.replicas.apply(_copy(tables))
        self._applied = self.group.log.snapshot.index

    # Decisions without a request of their own -------------------------------------------

    def is_alive(self, now_ms: int) -> IsAlive:
        """Whether a broker is alive at *now_ms*."""
        return partial(self.live.is_active, now_ms=now_ms)

    def elect_master(self, request: ElectMasterRequest, now_ms: int) -> Reply:
        """Elect a master; if it is a new one, notify all living brokers of the name."""
        name, config = request.broker_name, self.settings.config
        live_info = partial(self._live_info, name, now_ms=now_ms)
        unclean = config.elect_unclean_master
        reply = self.commit(self.replicas.elect_master(request, live_info, unclean=unclean))
        if reply.code == ResponseCode.SUCCESS and config.notify_role_changed:
            notify = partial(self._notify_role_changed, name, now_ms)
            if self.group is None:
                notify()
            else:
                self._at_commit.append((self._applied, notify))
        return reply

    def _live_info(self, name: str, number: int, *, now_ms: int) -> BrokerLiveInfo | None:
        broker = BrokerIdentity(self.replicas.replica_info_table[name].cluster, name, number)
        known = self.live.broker_live_table.get(broker)
        return known if self.live.is_active(broker, now_ms) else None

    def _notify_role_changed(self, name: str, now_ms: int) -> None:
        """Upstream: ControllerManager.notifyBrokerRoleChanged."""
        if not self.replicas.contains(name):
            return  # it was cleaned while the election was being committed
        group = self.replicas.replica_info_table[name]
        state = self.replicas.sync_state_set_info_table[name]
        found = self.replicas.master_header(name)
        header = NotifyBrokerRoleChangedRequest(
            master_broker_id=found.master_broker_id,
            master_address=found.master_address,
            master_epoch=found.master_epoch,
            sync_state_set_epoch=found.sync_state_set_epoch,
        )
        body = encode_body(sync_state_set_of(state), self.release)
        for number, replica in sorted(group.replicas.items()):
            is_alive = self.live.is_active(BrokerIdentity(group.cluster, name, number), now_ms)
            if is_alive and replica.address:
                self.push(replica.address, header, body)

    # Life and death of brokers --------------------------------------------------------

    def heartbeat(self, request: BrokerHeartbeatRequest, peer: Peer, now_ms: int) -> None:
        """Take the heartbeat of a broker.  Raises ``Refusal``."""
        if request.broker_id is None:
            remark = "Heart beat with empty brokerId"
            raise Refusal(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)
        if self.live.heard(request, peer, now_ms):
            self.note(ReplicaAlive(request.cluster_name, request.broker_name, request.broker_id))

    def closed(self, peer: Peer, now_ms: int) -> None:
        """The broker of this connection is not alive; if it was a master, elect another."""
        broker = self.live.closed(peer)
        if broker is not None:
            self._gone(broker, "channel closed", now_ms)

    def scan_brokers(self, now_ms: int) -> list[Peer]:
        """Remove silent brokers; returns their connections, to be closed.

        Controllers of JRaft never do: their test of the wait after the first heartbeat is the
        wrong way round (#9717).  Upstream: RaftBrokerHeartBeatManager.scanNotActiveBroker.
        """
        if self._is_jraft:
            return []
        gone = self.live.expire(now_ms)
        for broker, _ in gone:
            self._gone(broker, "silent", now_ms)
        return [known.peer for _, known in gone]

    def scan_masters(self, now_ms: int) -> None:
        """Elect a master for each name whose master is not alive while another broker is.

        JRaftController has none.  Upstream: DLedgerController.scanInactiveMasterAndTriggerReelect.
        """
        if self._is_jraft or not self.leads:
            return
        for name in self.replicas.names_without_master(self.is_alive(now_ms)):
            self._elect_again(name, now_ms)

    def _gone(self, broker: BrokerIdentity, reason: str, now_ms: int) -> None:
        name = broker.broker_name
        self.note(ReplicaGone(broker.cluster or "", name, broker.broker_id, reason))
        if self.leads and self.replicas.contains(name):
            state = self.replicas.sync_state_set_info_table[name]
            if state.master_broker_id == broker.broker_id:
                self._elect_again(name, now_ms)

    def _elect_again(self, name: str, now_ms: int) -> None:
        """Try until there is a new master; each failure counts as an epoch, as in upstream.

        Upstream waits up to 3 s for each try, and never between them.
        """
        request = ElectMasterRequest(
            cluster_name="", broker_name=name, broker_id=NO_BROKER, designate_elect=False
        )
        for _ in range(self.settings.config.elections_max):
            try:
                reply = self.elect_master(request, now_ms)
            except Refusal:  # by a disk that cannot be written: the next scan tries again
                continue
            if reply.code == ResponseCode.SUCCESS:
                return


# Facts --------------------------------------------------------------------------------


def _fact(event: AnyEvent, tables: ReplicasInfoTables) -> Fact | None:
    """The facts of *event*, which *tables* have applied."""
    make = _FACTS.get(type(event))
    return None if make is None else make(event, tables)


def _set_fact(event: SyncStateSetAltering, tables: ReplicasInfoTables) -> Fact:
    state = tables.sync_state_set_info_table[event.broker_name]
    ids = tuple(event.sync_state_set)
    return SyncStateSetChanged(event.broker_name, ids, state.sync_state_set_epoch)


def _election_fact(event: MasterElecting, tables: ReplicasInfoTables) -> Fact:
    state, winner = tables.sync_state_set_info_table[event.broker_name], event.master_broker_id
    if winner is None:
        return ElectionFailed(event.broker_name, state.master_epoch, tuple(state.sync_state_set))
    epochs = (state.master_epoch, state.sync_state_set_epoch)
    return MasterElected(event.broker_name, winner, *epochs)


_FACTS: dict[type, Callable[[Any, ReplicasInfoTables], Fact]] = {
    BrokerIdApplying: lambda event, _: BrokerIdApplied(
        event.cluster or "", event.broker_name, event.broker_id, event.address
    ),
    AddressUpdating: lambda event, _: ReplicaAddressChanged(
        event.broker_name, event.broker_id, event.address
    ),
    BrokerDataCleaning: lambda event, _: BrokerDataCleaned(
        event.broker_name, tuple(event.broker_ids or ())
    ),
    SyncStateSetAltering: _set_fact,
    MasterElecting: _election_fact,
}
