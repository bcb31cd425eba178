"""The replicas of every broker name, its master and its sync-state set: decisions and events.

A function for a request decides: it reads the tables and returns the reply, and the event that
makes it true, or none.  It changes nothing.  ``apply`` carries out an event and decides nothing:
events come from the log, too, where all of them were accepted before.

A request that cannot be granted raises ``Refusal``; as in upstream its header has the values known
so far.
There are two tables because a cleaned name can be in one of them only, as in upstream.

Upstream: ReplicasInfoManager.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from rocketmq_emulator.controller.state.elect_policy import Candidates, LiveInfo, elect
from rocketmq_emulator.controller.state.events import (
    AddressUpdating,
    AnyEvent,
    BrokerDataCleaning,
    BrokerIdApplying,
    BrokerReplicaInfo,
    MasterElecting,
    Replica,
    SyncStateInfo,
    SyncStateSetAltering,
    TablesSaved,
)
from rocketmq_emulator.controller.state.live_brokers import BrokerIdentity, IsAlive
from rocketmq_emulator.net.results import Refusal, Reply
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterBody,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
)
from rocketmq_emulator.protocol.bodies.routes import BrokerMemberGroup
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.requests.controller import (
    AlterSyncStateSetReply,
    AlterSyncStateSetRequest,
    ApplyBrokerIdReply,
    ApplyBrokerIdRequest,
    CleanControllerBrokerDataRequest,
    ElectMasterRequest,
    GetNextBrokerIdReply,
    GetNextBrokerIdRequest,
    GetReplicaInfoReply,
    MasterReply,
    RegisterBrokerToControllerReply,
    RegisterBrokerToControllerRequest,
)
from rocketmq_emulator.protocol.versions import Release

NO_BROKER = -1  # asks: a tool or the controller itself
FIRST_BROKER_ID = 1  # MixAll.FIRST_BROKER_CONTROLLER_ID
NAME_CHARS_MAX = 255  # ours: of a cluster's and a broker's name
TEXT_CHARS_MAX = 1_024  # ours: of an address and a check code
_REJECTED = "Rejecting alter syncStateSet request because the"
_FAILED = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
_JAVA_LONG = re.compile(r"[+-]?\d{1,19}")


class Decision(NamedTuple):
    """The reply to a request, and the event that makes it true."""

    reply: Reply
    event: AnyEvent | None = None


class ReplicasInfoTables:
    """The two tables, and the limits of *groups_max* names with *replicas_max* brokers each."""

    def __init__(self, *, release: Release, groups_max: int, replicas_max: int) -> None:
        self.replica_info_table: dict[str, BrokerReplicaInfo] = {}
        self.sync_state_set_info_table: dict[str, SyncStateInfo] = {}
        self._release = release
        self._groups_max = groups_max
        self._replicas_max = replicas_max

    # Ids ------------------------------------------------------------------------------

    def get_next_broker_id(self, request: GetNextBrokerIdRequest) -> Reply:
        """The id that a new broker of the name may apply for; 1 for an unknown name."""
        known = self.replica_info_table.get(request.broker_name)
        number = FIRST_BROKER_ID if known is None else known.next_broker_id
        header = GetNextBrokerIdReply(
            cluster_name=request.cluster_name,
            broker_name=request.broker_name,
            next_broker_id=number,
        )
        return Reply(header)

    def apply_broker_id(self, request: ApplyBrokerIdRequest) -> Decision:
        """Accept an id that is free, or is that of a broker with the same check code."""
        name, number = request.broker_name, request.applied_broker_id
        header = ApplyBrokerIdReply(cluster_name=request.cluster_name, broker_name=name)
        known = self.replica_info_table.get(name)
        if known is None and number != FIRST_BROKER_ID:
            remark = (
                f"Broker-set: {name} hasn't been registered in controller, "
                f"but broker try to apply brokerId: {number}"
            )
            raise Refusal(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, header)
        owner = None if known is None else known.replicas.get(number)
        if owner is not None and owner.check_code != request.register_check_code:
            remark = f"Fail to apply brokerId: {number} in broker-set: {name}"
            raise Refusal(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, header)
        self._check_room(request, known)
        event = BrokerIdApplying(
            broker_name=name,
            cluster=request.cluster_name,
            broker_id=number,
            address=request.register_check_code.split(";")[0],
            check_code=request.register_check_code,
        )
        return Decision(Reply(header), event)

    def _check_room(self, request: ApplyBrokerIdRequest, known: BrokerReplicaInfo | None) -> None:
        _check_length(request.cluster_name or "", NAME_CHARS_MAX, "clusterName")
        _check_length(request.broker_name, NAME_CHARS_MAX, "brokerName")
        _check_length(request.register_check_code, TEXT_CHARS_MAX, "registerCheckCode")
        if known is None and len(self.replica_info_table) >= self._groups_max:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "no room for another broker name")
        if (
            known is not None
            and request.applied_broker_id not in known.replicas
            and len(known.replicas) >= self._replicas_max
        ):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "no room for another broker of this name")

    def register_broker(
        self, request: RegisterBrokerToControllerRequest, is_alive: IsAlive
    ) -> Decision:
        """The living master, if there is one; a new address of the broker is recorded."""
        name, number = request.broker_name, request.broker_id
        header = RegisterBrokerToControllerReply(
            cluster_name=request.cluster_name, broker_name=name
        )
        if not self.contains(name):
            remark = f"Broker-set: {name} hasn't been registered in controller"
            raise Refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, header)
        group, state = self.replica_info_table[name], self.sync_state_set_info_table[name]
        if number not in group.replicas:
            remark = f"BrokerId: {number} hasn't been registered in broker-set: {name}"
            raise Refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, header)
        _check_length(request.broker_address, TEXT_CHARS_MAX, "brokerAddress")
        master = state.master_broker_id
        if master is not None and is_alive(BrokerIdentity(request.cluster_name, name, master)):
            header.master_broker_id, header.master_address = master, group.address(master)
            header.master_epoch = state.master_epoch
            header.sync_state_set_epoch = state.sync_state_set_epoch
        event = None
        if group.address(number) != request.broker_address:
            event = AddressUpdating(name, number, request.broker_address)
        return Decision(Reply(header, body=self._set_body(state)), event)

    # The master -----------------------------------------------------------------------

    def elect_master(
        self, request: ElectMasterRequest, live_info: LiveInfo, *, unclean: bool
    ) -> Decision:
        """Elect a master.  An asking broker becomes it at once if the name never had one."""
        name, asking = request.broker_name, request.broker_id
        if not self.contains(name):
            code = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
            raise Refusal(code, "Broker hasn't been registered", MasterReply())
        group, state = self.replica_info_table[name], self.sync_state_set_info_table[name]
        winner = None
        if state.master_epoch == 0 and asking != NO_BROKER:
            winner = asking
        if winner is None:
            candidates = Candidates(
                in_sync=state.sync_state_set,
                others=group.replicas if unclean else (),
                old_master=state.master_broker_id,
                designated=asking if request.designate_elect else None,
            )
            winner = elect(candidates, live_info)
        if winner is None:
            return _not_elected(name, asking)
        if winner == state.master_broker_id:
            return self._still_there(name)
        body = ElectMasterBody(
            broker_member_group=BrokerMemberGroup(
                cluster=group.cluster or "",
                broker_name=name,
                broker_addrs={i: each.address for i, each in sorted(group.replicas.items())},
            ),
            sync_state_set=[winner],
        )
        header = MasterReply(
            master_broker_id=winner,
            master_address=group.address(winner),
            master_epoch=state.master_epoch + 1,
            sync_state_set_epoch=state.sync_state_set_epoch + 1,
        )
        return Decision(Reply(header, body=self._encoded(body)), MasterElecting(name, winner))

    def _still_there(self, name: str) -> Decision:
        state = self.sync_state_set_info_table[name]
        remark = (
            f"The old master {state.master_broker_id} is still alive, "
            f"not need to elect new master for broker {name}"
        )
        body = self._encoded(ElectMasterBody(sync_state_set=state.sync_state_set))
        code = ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        return Decision(Reply(self.master_header(name), body=body, code=code, remark=remark))

    def master_header(self, name: str) -> MasterReply:
        """The master of a known *name*, and both epochs."""
        group, state = self.replica_info_table[name], self.sync_state_set_info_table[name]
        return MasterReply(
            master_broker_id=state.master_broker_id,
            master_address=group.address(state.master_broker_id),
            master_epoch=state.master_epoch,
            sync_state_set_epoch=state.sync_state_set_epoch,
        )

    def names_without_master(self, is_alive: IsAlive) -> list[str]:
        """Names whose master is not alive while another broker is.

        Upstream: scanNeedReelectBrokerSets.
        """
        return [
            name
            for name, state in self.sync_state_set_info_table.items()
            if state.master_broker_id is not None
            and name in self.replica_info_table
            and not is_alive(BrokerIdentity(state.cluster, name, state.master_broker_id))
            and any(
                is_alive(BrokerIdentity(state.cluster, name, number))
                for number in self.replica_info_table[name].replicas
            )
        ]

    # The sync-state set ---------------------------------------------------------------

    def alter_sync_state_set(
        self, request: AlterSyncStateSetRequest, wanted: SyncStateSet, is_alive: IsAlive
    ) -> Decision:
        """Replace the set, if the master asks with both epochs; checked in upstream's order."""
        name = request.broker_name
        self._check_reporter(request, wanted)
        self._check_members(name, wanted, is_alive)
        epoch = self.sync_state_set_info_table[name].sync_state_set_epoch + 1
        ids = sorted(set(wanted.sync_state_set))
        body = SyncStateSet(sync_state_set=ids, sync_state_set_epoch=epoch)
        header = AlterSyncStateSetReply(new_sync_state_set_epoch=epoch)
        return Decision(Reply(header, body=self._encoded(body)), SyncStateSetAltering(name, ids))

    def _check_reporter(self, request: AlterSyncStateSetRequest, wanted: SyncStateSet) -> None:
        name = request.broker_name
        if not self.contains(name):
            raise _not_altered(_FAILED, "Broker metadata is not existed")
        state = self.sync_state_set_info_table[name]
        if set(wanted.sync_state_set) == set(state.sync_state_set):
            same = "The newSyncStateSet is equal with oldSyncStateSet"
            raise _not_altered(_FAILED, f"{same}, no needed to update syncStateSet")
        for what, found, given, code in (
            (
                "leader",
                state.master_broker_id,
                request.master_broker_id,
                ResponseCode.CONTROLLER_INVALID_MASTER,
            ),
            (
                "master epoch",
                state.master_epoch,
                request.master_epoch,
                ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
            ),
            (
                "syncStateSet epoch",
                state.sync_state_set_epoch,
                wanted.sync_state_set_epoch,
                ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
            ),
        ):
            if found is None or found != given:
                found_text, given_text = _java_text(found), _java_text(given)
                remark = f"{_REJECTED} current {what} is:{{{found_text}}}, not {{{given_text}}}"
                raise _not_altered(code, remark)

    def _check_members(self, name: str, wanted: SyncStateSet, is_alive: IsAlive) -> None:
        group, state = self.replica_info_table[name], self.sync_state_set_info_table[name]
        for number in sorted(set(wanted.sync_state_set)):
            if number not in group.replicas:
                remark = f"{_REJECTED} replicas {{{number}}} don't exist"
                raise _not_altered(ResponseCode.CONTROLLER_INVALID_REPLICAS, remark)
            if not is_alive(BrokerIdentity(group.cluster, name, number)):
                remark = f"{_REJECTED} replicas {{{number}}} don't alive"
                raise _not_altered(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, remark)
        master = state.master_broker_id
        if master not in wanted.sync_state_set:
            remark = f"{_REJECTED} newSyncStateSet don't contains origin leader {{{master}}}"
            raise _not_altered(_FAILED, remark)

    # Reading --------------------------------------------------------------------------

    def contains(self, name: str) -> bool:
        """Whether *name* is in both tables."""
        return name in self.replica_info_table and name in self.sync_state_set_info_table

    def get_replica_info(self, name: str) -> Reply:
        """The master and the sync-state set of a name."""
        if not self.contains(name):
            code = ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
            raise Refusal(code, "Broker metadata is not existed", GetReplicaInfoReply())
        state = self.sync_state_set_info_table[name]
        found = self.master_header(name)
        header = GetReplicaInfoReply(
            master_broker_id=found.master_broker_id,
            master_address=found.master_address,
            master_epoch=found.master_epoch,
        )
        return Reply(header, body=self._set_body(state))

    def get_sync_state_data(self, names: list[str], is_alive: IsAlive) -> Reply:
        """The replicas of each known name in *names*."""
        found = {name: self._replicas(name, is_alive) for name in names if self.contains(name)}
        return Reply(body=self._encoded(BrokerReplicasInfo(replicas_info_table=found)))

    def _replicas(self, name: str, is_alive: IsAlive) -> ReplicasInfo:
        group, state = self.replica_info_table[name], self.sync_state_set_info_table[name]
        sides: tuple[list[ReplicaIdentity], list[ReplicaIdentity]] = ([], [])
        for number, replica in sorted(group.replicas.items()):
            identity = ReplicaIdentity(
                broker_name=name,
                broker_id=number,
                broker_address=replica.address,
                alive=is_alive(BrokerIdentity(group.cluster, name, number)),
            )
            sides[number not in state.sync_state_set].append(identity)
        return ReplicasInfo(
            master_broker_id=state.master_broker_id,
            master_address=group.address(state.master_broker_id),
            master_epoch=state.master_epoch,
            sync_state_set_epoch=state.sync_state_set_epoch,
            in_sync_replicas=sides[0],
            not_in_sync_replicas=sides[1],
        )

    def _set_body(self, state: SyncStateInfo) -> bytes:
        return self._encoded(sync_state_set_of(state))

    def _encoded(self, body: object) -> bytes:
        return encode_body(body, self._release)

    # Removing -------------------------------------------------------------------------

    def clean_broker_data(
        self, request: CleanControllerBrokerDataRequest, is_alive: IsAlive
    ) -> Decision:
        """Remove brokers that are not alive, or, with no ids, a name that has no master.

        As in upstream ``is_clean_living_broker`` removes the whole name, whatever the ids are.
        """
        name, ids = request.broker_name, None
        if not request.is_clean_living_broker:
            text = request.broker_controller_ids_to_clean or ""
            state = self.sync_state_set_info_table.get(name)
            if not text.strip() and state is not None and state.master_broker_id is not None:
                raise _not_cleaned(f"Broker {name} is still alive, clean up failure")
            if text.strip():
                try:
                    ids = _ids_in(text)
                except ValueError as error:
                    raise _not_cleaned(
                        "Please set the option <brokerControllerIdsToClean> according to the "
                        f"format, exception: java.lang.NumberFormatException: {error}"
                    ) from error
            for number in ids or ():
                if is_alive(BrokerIdentity(request.cluster_name, name, number)):
                    raise _not_cleaned(
                        f"Broker [{name},  {number}] is still alive, clean up failure"
                    )
        if not self.contains(name):
            raise _not_cleaned(f"Broker {name} is not existed,clean broker data failure.")
        return Decision(Reply(), BrokerDataCleaning(name, ids))

    # Events ---------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Carry out *event*, which was accepted before.  Upstream: applyEvent."""
        _APPLY[type(event)](self, event)

    def saved(self) -> TablesSaved:
        """Both tables as one event."""
        return TablesSaved(self.replica_info_table, self.sync_state_set_info_table)

    def _apply_tables(self, event: TablesSaved) -> None:
        self.replica_info_table = event.replica_info_table
        self.sync_state_set_info_table = event.sync_state_set_info_table

    def _apply_broker_id(self, event: BrokerIdApplying) -> None:
        name = event.broker_name
        if not self.contains(name):
            self.replica_info_table[name] = BrokerReplicaInfo(event.cluster)
            self.sync_state_set_info_table[name] = SyncStateInfo(event.cluster)
        group = self.replica_info_table[name]
        if event.broker_id not in group.replicas:
            group.replicas[event.broker_id] = Replica(event.address, event.check_code)
            group.next_broker_id += 1

    def _apply_address(self, event: AddressUpdating) -> None:
        replicas = self.replica_info_table[event.broker_name].replicas
        known = replicas.get(event.broker_id)
        if known is not None:
            replicas[event.broker_id] = Replica(event.address, known.check_code)

    def _apply_sync_state_set(self, event: SyncStateSetAltering) -> None:
        if self.contains(event.broker_name):
            state = self.sync_state_set_info_table[event.broker_name]
            state.sync_state_set = list(event.sync_state_set)
            state.sync_state_set_epoch += 1

    def _apply_master(self, event: MasterElecting) -> None:
        if not self.contains(event.broker_name):
            return
        state = self.sync_state_set_info_table[event.broker_name]
        state.master_broker_id = event.master_broker_id
        state.master_epoch += 1
        if event.master_broker_id is not None:  # otherwise the set stays, for a later election
            state.sync_state_set = [event.master_broker_id]
            state.sync_state_set_epoch += 1

    def _apply_cleaning(self, event: BrokerDataCleaning) -> None:
        name = event.broker_name
        if not event.broker_ids:
            self.replica_info_table.pop(name, None)
            self.sync_state_set_info_table.pop(name, None)
            return
        if not self.contains(name):
            return
        group, state = self.replica_info_table[name], self.sync_state_set_info_table[name]
        for number in event.broker_ids:
            group.replicas.pop(number, None)
        state.sync_state_set = [i for i in state.sync_state_set if i not in event.broker_ids]
        if not group.replicas:
            del self.replica_info_table[name]
        if not state.sync_state_set:
            del self.sync_state_set_info_table[name]


_APPLY: dict[type, Any] = {
    TablesSaved: ReplicasInfoTables._apply_tables,  # noqa: SLF001  # the table of this class
    BrokerIdApplying: ReplicasInfoTables._apply_broker_id,  # noqa: SLF001
    AddressUpdating: ReplicasInfoTables._apply_address,  # noqa: SLF001
    SyncStateSetAltering: ReplicasInfoTables._apply_sync_state_set,  # noqa: SLF001
    MasterElecting: ReplicasInfoTables._apply_master,  # noqa: SLF001
    BrokerDataCleaning: ReplicasInfoTables._apply_cleaning,  # noqa: SLF001
}


def sync_state_set_of(state: SyncStateInfo) -> SyncStateSet:
    """The set of a name as a body."""
    return SyncStateSet(
        sync_state_set=state.sync_state_set, sync_state_set_epoch=state.sync_state_set_epoch
    )


def _not_elected(name: str, asking: int) -> Decision:
    """If the controller asks, the old master is forgotten, and its epoch ends."""
    if asking == NO_BROKER:
        remark = "Old master has down and failed to elect a new broker master"
        code = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
        reply = Reply(MasterReply(), code=code, remark=remark)
        return Decision(reply, MasterElecting(name, None))
    code = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    raise Refusal(code, "Failed to elect a new master", MasterReply())


def _not_altered(code: int, remark: str) -> Refusal:
    return Refusal(code, remark, AlterSyncStateSetReply())


def _not_cleaned(remark: str) -> Refusal:
    return Refusal(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark)


def _ids_in(text: str) -> list[int]:
    """The ids in "1;2", ascending.  Raises ``ValueError`` with Java's text."""
    ids = set()
    for part in text.rstrip(";").split(";"):
        if not _JAVA_LONG.fullmatch(part) or not -(2**63) <= int(part) < 2**63:
            raise ValueError(f'For input string: "{part[:TEXT_CHARS_MAX]}"')
        ids.add(int(part))
    return sorted(ids)


def _java_text(value: int | None) -> str:
    return "null" if value is None else str(value)


def _check_length(text: str, chars_max: int, name: str) -> None:
    if len(text) > chars_max:
        remark = f"{name} has {len(text)} characters: the limit is {chars_max}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
