"""What a broker does because a controller gives it its role: the calls, and when they are made.

A broker begins fenced: it takes no messages, and no NameServer knows it.  It finds the leader of
the controllers, gets an id once in its life, registers, and asks for an election if nobody is
master.  Then it has a role and runs.  From then on it looks every 5 s whether another master was
elected; the controller also notifies it.  A role change is taken only with a larger master epoch.
A broker that runs goes on without controllers: a master keeps its role until it hears of another.

This decides, and calls nobody: a method that needs answers is a generator of ``ControllerCall``
and ``PauseStep``, to which the shell sends each reply.  What a role means for the broker is behind
``BrokerRoles``.

Upstream: ReplicasManager.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Collection, Generator, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from rocketmq_emulator.broker.replication.broker_metadata import (
    BrokerMetadata,
    BrokerMetadataFiles,
)
from rocketmq_emulator.disk.port import WRITE_ERRORS, refusal
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import BrokerRoleChanged, RoleNotGranted
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body, encode_body
from rocketmq_emulator.protocol.bodies.controller import ElectMasterBody, SyncStateSet
from rocketmq_emulator.protocol.codes import ResponseCode, response_name
from rocketmq_emulator.protocol.fields import BadFields, Header
from rocketmq_emulator.protocol.requests.controller import (
    AlterSyncStateSetRequest,
    ApplyBrokerIdRequest,
    ElectMasterRequest,
    GetMetaDataReply,
    GetNextBrokerIdReply,
    GetNextBrokerIdRequest,
    GetReplicaInfoReply,
    GetReplicaInfoRequest,
    MasterReply,
    RegisterBrokerToControllerReply,
    RegisterBrokerToControllerRequest,
)
from rocketmq_emulator.protocol.requests.nameserver import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.rpc import AnyRpc
    from rocketmq_emulator.settings.config import BrokerConfig

RETRY_MS = 5_000  # ReplicasManager.RETRY_INTERVAL_SECOND
METADATA_TRIES, METADATA_PAUSE_MS = 3, 1_000  # ReplicasManager.schedulingSyncControllerMetadata
REGISTER_TRIES, REGISTER_PAUSE_MS_MAX = 5, 1_000  # ReplicasManager.startBasicService
REGISTERED_AGAIN_PAUSE_MS = 2_000  # ReplicasManager.schedulingSyncBrokerMetadata
SCAN_MS = 3_000  # ReplicasManager.start: scanAvailableControllerAddresses
FIRST_SYNC_MS = 3_000  # ReplicasManager: the first run of each of its periodic tasks
CALL_MS_MAX = 3_000  # BrokerOuterAPI

T = TypeVar("T")


class ControllerCall(NamedTuple):
    """One request to the controller at *address*; the generator gets the reply, or the error."""

    address: str
    rpc: AnyRpc
    header: Header | None = None
    body: bytes = b""


class PauseStep(NamedTuple):
    """Wait so long; the generator gets None."""

    ms: int


Steps: TypeAlias = Generator[ControllerCall | PauseStep, "RemotingCommand | RemoteError | None", T]


class LogReport(NamedTuple):
    """What a heartbeat says of a broker's log."""

    epoch: int
    max_offset: int
    confirm_offset: int


class BrokerRoles(Protocol):
    """What a role change does to the broker, in upstream's order.  No method waits."""

    def set_fenced(self, *, is_fenced: bool) -> None:
        """Refuse puts and stay unknown to NameServers, or stop doing so."""

    def set_controller_id(self, broker_id: int) -> None:
        """The id of this broker, from 1 on, is known."""

    def use_sync_state_set(self, broker_ids: Collection[int]) -> None:
        """The controller knows this set; the broker is its master."""

    def change_to_master(self, epoch: int) -> None:
        """Be the master from now on."""

    def remain_master(self, epoch: int) -> None:
        """Be the master in a new epoch, too."""

    def change_to_slave(self, master_address: str, epoch: int, broker_id: int) -> None:
        """Follow another master from now on, as the slave *broker_id*."""

    def remain_slave(self, master_address: str, epoch: int) -> None:
        """Follow the same master in a new epoch."""

    def sync_state_set(self) -> set[int]:
        """The ids of slaves that may stay in the set.  Upstream: maybeShrinkSyncStateSet."""

    def log_report(self) -> LogReport:
        """The end of the log now."""


class State(enum.Enum):
    """Upstream: ReplicasManager.State; the end of the broker is the end of its tasks."""

    INITIAL = enum.auto()
    FIRST_TIME_SYNC_CONTROLLER_METADATA_DONE = enum.auto()
    REGISTER_TO_CONTROLLER_DONE = enum.auto()
    RUNNING = enum.auto()


class ControlledReplica:
    """The controllers, the id, the master and the sync-state set, as this broker knows them.

    ``address`` must be set to the broker's own once it listens.  *rng* spreads the tries to
    register of brokers that start together.
    """

    def __init__(
        self,
        config: BrokerConfig,
        disk: Disk,
        roles: BrokerRoles,
        *,
        note: Note,
        rng: random.Random,
        now_ms: Callable[[], int],
    ) -> None:
        self.state = State.INITIAL
        self.address = ""
        self.leader_address = ""
        self.broker_id: int | None = None  # from 1 on; in the broker's config a master has 0
        self.master_id: int | None = None
        self.master_address = ""
        self.master_epoch = 0
        self.sync_state_set: set[int] = set()
        self.sync_state_set_epoch = 0
        self._config = config
        self._files = BrokerMetadataFiles(disk)
        self._roles = roles
        self._note = note
        self._rng = rng
        self._now_ms = now_ms
        self._reachable: dict[str, None] = {}  # an ordered set
        self._failing = ""  # why the last start failed; noted when it changes
        self._names = {"cluster_name": config.cluster, "broker_name": config.name}
        roles.set_fenced(is_fenced=True)

    @property
    def is_master(self) -> bool:
        """Whether this broker is the master that it knows of."""
        return self.master_id is not None and self.master_id == self.broker_id

    # Controllers ----------------------------------------------------------------------

    @property
    def reachable(self) -> tuple[str, ...]:
        """The controllers to which a connection was open at the last look."""
        return tuple(self._reachable)

    def looked_at(self, address: str, *, is_reachable: bool) -> None:
        """A look at one controller has ended.  Upstream: scanAvailableControllerAddresses."""
        if is_reachable:
            self._reachable[address] = None
        else:
            self._reachable.pop(address, None)

    def find_leader(self) -> Steps[bool]:
        """Ask reachable controllers until one names a leader; returns whether one did.

        Upstream: ReplicasManager.updateControllerMetadata.
        """
        for address in self.reachable:
            reply = yield ControllerCall(address, catalog.CONTROLLER_GET_METADATA_INFO)
            found = _header(reply, GetMetaDataReply)
            if found is not None and found.controller_leader_address:
                self.leader_address = found.controller_leader_address
                return True
        return False

    def heartbeat(self) -> BrokerHeartbeatRequest:
        """The heartbeat for every reachable controller.  Upstream: sendHeartbeatToController."""
        end = self._roles.log_report()
        return BrokerHeartbeatRequest(
            **self._names,
            broker_addr=self.address,
            broker_id=self.broker_id,
            epoch=end.epoch,
            max_offset=end.max_offset,
            confirm_offset=end.confirm_offset,
            heartbeat_timeout_mills=self._config.controller_silence_ms_max,
            election_priority=self._config.election_priority,
        )

    # The start ------------------------------------------------------------------------

    def start(self) -> Steps[bool]:
        """Go on with the start until it is done or fails; returns whether this broker runs.

        After a failure the shell calls it again ``RETRY_MS`` later: it goes on where it was.
        Upstream: ReplicasManager.startBasicService.
        """
        if self.state is State.INITIAL:
            if not (yield from self._find_first_leader()):
                return self._failed("no controller names a leader")
            self.state = State.FIRST_TIME_SYNC_CONTROLLER_METADATA_DONE
        if self.state is State.FIRST_TIME_SYNC_CONTROLLER_METADATA_DONE:
            for _ in range(REGISTER_TRIES):
                refused = yield from self._register()
                if not refused:
                    self.state = State.REGISTER_TO_CONTROLLER_DONE
                    break
                yield PauseStep(self._rng.randrange(REGISTER_PAUSE_MS_MAX))
            else:
                return self._failed(refused)
        if self.state is State.REGISTER_TO_CONTROLLER_DONE:
            for address in self.reachable:  # so that the election finds this broker alive
                yield ControllerCall(address, catalog.BROKER_HEARTBEAT, self.heartbeat())
            if self.master_id is None and (refused := (yield from self._elect())):
                return self._failed(refused)
            self.state = State.RUNNING
            self._failing = ""
            self._roles.set_fenced(is_fenced=False)
        return True

    def _failed(self, reason: str) -> bool:
        if reason != self._failing:
            self._note(RoleNotGranted(self.leader_address, reason))
        self._failing = reason
        return False

    def _find_first_leader(self) -> Steps[bool]:
        for _ in range(METADATA_TRIES):
            if (yield from self.find_leader()):
                return True
            yield PauseStep(METADATA_PAUSE_MS)
        return False

    def _register(self) -> Steps[str]:
        """Get an id unless a file has one, and register; returns why not, or "".

        Upstream: ReplicasManager.register.
        """
        try:
            found = self._files.identity()
            wanted = None if found is not None else self._files.applied_for()
            stored = found or wanted
            if stored is not None and (refused := self._refused(stored)):
                return refused
            granted = found or (yield from self._apply(wanted))
            if isinstance(granted, str):
                return granted
        except WRITE_ERRORS as error:
            self._note(refusal(error, "the broker's id"))
            return f"the broker's id cannot be stored: {error}"
        self.broker_id = granted.broker_id
        self._roles.set_controller_id(granted.broker_id)
        return (yield from self._register_with_id(granted.broker_id))

    def _refused(self, found: BrokerMetadata) -> str:
        """Why a stored id is not this broker's.  Upstream: checkMetadataValid."""
        config = self._config
        if (found.cluster, found.broker_name) == (config.cluster, config.name):
            return ""
        return (
            f"the store belongs to broker {found.broker_name} of cluster {found.cluster}, "
            f"this is {config.name} of {config.cluster}: give it its own store"
        )

    def _apply(self, wanted: BrokerMetadata | None) -> Steps[BrokerMetadata | str]:
        if wanted is None:
            request = GetNextBrokerIdRequest(**self._names)
            reply = yield self._to_leader(catalog.CONTROLLER_GET_NEXT_BROKER_ID, request)
            found = _header(reply, GetNextBrokerIdReply)
            if found is None or found.next_broker_id is None:
                return self._text(reply)
            code = f"{self.address};{self._now_ms()}"
            config = self._config
            wanted = BrokerMetadata(config.cluster, config.name, found.next_broker_id, code)
            self._files.apply_for(wanted)
        applied = ApplyBrokerIdRequest(
            **self._names,
            applied_broker_id=wanted.broker_id,
            register_check_code=wanted.check_code,
        )
        reply = yield self._to_leader(catalog.CONTROLLER_APPLY_BROKER_ID, applied)
        if not _is_success(reply):
            self._files.withdraw()  # somebody else has this id: start again with another
            return self._text(reply)
        return self._files.grant(wanted)

    def _register_with_id(self, broker_id: int) -> Steps[str]:
        """Upstream: ReplicasManager.registerBrokerToController."""
        request = RegisterBrokerToControllerRequest(
            **self._names, broker_id=broker_id, broker_address=self.address
        )
        reply = yield self._to_leader(catalog.CONTROLLER_REGISTER_BROKER, request)
        found = _header(reply, RegisterBrokerToControllerReply)
        if found is None:
            return self._text(reply)
        self.change_role(found, _set_in(reply))
        return ""

    def _elect(self) -> Steps[str]:
        """Ask to be elected; returns why there is no master, or "".

        Upstream: ReplicasManager.brokerElect.
        """
        assert self.broker_id is not None, "it has registered"
        request = ElectMasterRequest(
            **self._names, broker_id=self.broker_id, designate_elect=False
        )
        reply = yield self._to_leader(catalog.CONTROLLER_ELECT_MASTER, request)
        found = _header(reply, MasterReply, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        if found is None or not found.master_address or found.master_broker_id is None:
            return self._text(reply)
        self.change_role(found, _elected_set_in(reply))
        return ""

    # Roles ----------------------------------------------------------------------------

    def change_role(self, found: MasterReply, in_sync: SyncStateSet | None) -> None:
        """Take the role that *found* gives this broker, if its epoch is larger than the last.

        Upstream: ReplicasManager.changeBrokerRole, changeToMaster, changeToSlave.
        """
        master, epoch = found.master_broker_id, found.master_epoch
        if master is None or epoch is None or epoch <= self.master_epoch:
            return
        if self.broker_id is None:
            return  # a notice before this broker has its id
        is_same = master == self.master_id
        self.master_epoch = epoch
        address = found.master_address or ""
        if master == self.broker_id:
            self._use_set(in_sync, found.sync_state_set_epoch)
            self.master_id, self.master_address = master, self.address
            change = self._roles.remain_master if is_same else self._roles.change_to_master
            change(epoch)
            self._note(BrokerRoleChanged("master", self.broker_id, self.address, epoch))
            return
        self.master_id, self.master_address = master, address
        if is_same:
            self._roles.remain_slave(address, epoch)
        else:
            self._roles.change_to_slave(address, epoch, self.broker_id)
        self._note(BrokerRoleChanged("slave", self.broker_id, address, epoch))

    def _use_set(self, found: SyncStateSet | None, epoch: int | None = None) -> None:
        """Upstream: ReplicasManager.changeSyncStateSet."""
        if found is None:
            return
        epoch = found.sync_state_set_epoch if epoch is None else epoch
        if epoch > self.sync_state_set_epoch:
            self.sync_state_set_epoch = epoch
            self.sync_state_set = set(found.sync_state_set)
            self._roles.use_sync_state_set(self.sync_state_set)

    def sync_role(self) -> Steps[None]:
        """One look whether another master was elected.

        Upstream: ReplicasManager.schedulingSyncBrokerMetadata.
        """
        request = GetReplicaInfoRequest(broker_name=self._config.name)
        reply = yield self._to_leader(catalog.CONTROLLER_GET_REPLICA_INFO, request)
        found = _header(reply, GetReplicaInfoReply)
        if found is None:
            if _code(reply) == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
                assert self.broker_id is not None, "this broker runs"
                yield from self._register_with_id(self.broker_id)
                yield PauseStep(REGISTERED_AGAIN_PAUSE_MS)
            return
        in_sync, epoch = _set_in(reply), found.master_epoch or 0
        if epoch > self.master_epoch:
            if found.master_address and found.master_broker_id is not None:
                self.change_role(_with_set_epoch(found, in_sync), in_sync)
            else:
                yield from self._elect()
        elif epoch == self.master_epoch and self.is_master:
            self._use_set(in_sync)

    # The sync-state set ---------------------------------------------------------------

    def check_sync_state_set(self) -> Steps[None]:
        """Report the set if a slave has to leave it.

        Upstream: ReplicasManager.checkSyncStateSetAndDoReport.
        """
        if not self.is_master or self.broker_id is None:
            return
        wanted = self._roles.sync_state_set() | {self.broker_id}
        if wanted != self.sync_state_set:
            yield from self.report_sync_state_set(wanted)

    def report_sync_state_set(self, wanted: Iterable[int]) -> Steps[None]:
        """Ask the controller to replace the set.  Upstream: doReportSyncStateSetChanged."""
        request = AlterSyncStateSetRequest(
            broker_name=self._config.name,
            master_epoch=self.master_epoch,
            master_broker_id=self.broker_id,
        )
        ids = SyncStateSet(
            sync_state_set=sorted(wanted), sync_state_set_epoch=self.sync_state_set_epoch
        )
        body = encode_body(ids, self._config.parsed_release)
        reply = yield self._to_leader(catalog.CONTROLLER_ALTER_SYNC_STATE_SET, request, body)
        if _is_success(reply):
            self._use_set(_set_in(reply))

    # Inside ---------------------------------------------------------------------------

    def _to_leader(self, rpc: AnyRpc, header: Header, body: bytes = b"") -> ControllerCall:
        return ControllerCall(self.leader_address, rpc, header, body)

    def _text(self, reply: RemotingCommand | RemoteError | None) -> str:
        """Why *reply* does not help, for people."""
        if reply is None or isinstance(reply, RemoteError):
            return str(reply)
        name = response_name(reply.code, self._config.parsed_release)
        return f"{self.leader_address} answers {name}: {reply.remark or ''}"


# Replies ------------------------------------------------------------------------------


H = TypeVar("H", bound=Header)
B = TypeVar("B", SyncStateSet, ElectMasterBody)


def _code(reply: RemotingCommand | RemoteError | None) -> int | None:
    return None if reply is None or isinstance(reply, RemoteError) else reply.code


def _is_success(reply: RemotingCommand | RemoteError | None) -> bool:
    return _code(reply) == ResponseCode.SUCCESS


def _header(
    reply: RemotingCommand | RemoteError | None, kind: type[H], *also_good: int
) -> H | None:
    """The header of a reply with SUCCESS or a code of *also_good*; None for any other answer."""
    if reply is None or isinstance(reply, RemoteError):
        return None
    if reply.code not in (ResponseCode.SUCCESS, *also_good):
        return None
    try:
        return reply.decode(kind)
    except BadFields:
        return None


def _body(reply: RemotingCommand | RemoteError | None, kind: type[B]) -> B | None:
    if reply is None or isinstance(reply, RemoteError) or not reply.body:
        return None
    try:
        return decode_unlimited_body(reply.body, kind)
    except BadFields:
        return None


def _set_in(reply: RemotingCommand | RemoteError | None) -> SyncStateSet | None:
    return _body(reply, SyncStateSet)


def _elected_set_in(reply: RemotingCommand | RemoteError | None) -> SyncStateSet | None:
    """The set of an election; its epoch is in the header."""
    found = _body(reply, ElectMasterBody)
    return None if found is None else SyncStateSet(sync_state_set=found.sync_state_set)


def _with_set_epoch(found: GetReplicaInfoReply, in_sync: SyncStateSet | None) -> MasterReply:
    """The master of a reply whose set has the epoch of the set."""
    return MasterReply(
        master_broker_id=found.master_broker_id,
        master_address=found.master_address,
        master_epoch=found.master_epoch,
        sync_state_set_epoch=None if in_sync is None else in_sync.sync_state_set_epoch,
    )
