"""The calls that a controller answers: of brokers and of tools.

``handler_table`` maps calls to handlers of a ``Controller``.  A handler decides and commits; after
a ``Refusal`` nothing has changed.  In a group only the leader decides: the others answer
CONTROLLER_NOT_LEADER, except to heartbeats, questions who leads, and those about settings.

Upstream: ControllerRequestProcessor.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from rocketmq_emulator.controller.state.group import decode_group_request
from rocketmq_emulator.disk.port import WRITE_ERRORS
from rocketmq_emulator.facts import SettingsIgnored
from rocketmq_emulator.net.dispatch import Row, Table, table_of
from rocketmq_emulator.net.results import Call, Handler, Refusal, Reply, Result
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.controller import SyncStateSet
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.java import java_json, java_properties
from rocketmq_emulator.protocol.requests.controller import GetMetaDataReply
from rocketmq_emulator.settings.allowed_values import peers_in

if TYPE_CHECKING:
    from rocketmq_emulator.controller.state.controller import Controller
    from rocketmq_emulator.protocol.fields import Header
    from rocketmq_emulator.protocol.requests.controller import (
        AlterSyncStateSetRequest,
        ApplyBrokerIdRequest,
        CleanControllerBrokerDataRequest,
        ElectMasterRequest,
        GetNextBrokerIdRequest,
        GetReplicaInfoRequest,
        RegisterBrokerToControllerRequest,
    )
    from rocketmq_emulator.protocol.requests.nameserver import BrokerHeartbeatRequest

NAMES_BYTES_MAX = 1024 * 1024  # ours: of the names in CONTROLLER_GET_SYNC_STATE_DATA


def handler_table(controller: Controller) -> Table:
    """The handlers of *controller* by code, for the calls that its release has."""
    processor = ControllerRequestProcessor(controller)
    of_leader = (
        Row(catalog.CONTROLLER_ALTER_SYNC_STATE_SET, processor.alter_sync_state_set),
        Row(catalog.CONTROLLER_ELECT_MASTER, processor.elect_master),
        Row(catalog.CONTROLLER_REGISTER_BROKER, processor.register_broker),
        Row(catalog.CONTROLLER_GET_REPLICA_INFO, processor.get_replica_info),
        Row(catalog.CONTROLLER_GET_SYNC_STATE_DATA, processor.get_sync_state_data),
        Row(catalog.CLEAN_BROKER_DATA, processor.clean_broker_data),
        Row(catalog.CONTROLLER_GET_NEXT_BROKER_ID, processor.get_next_broker_id),
        Row(catalog.CONTROLLER_APPLY_BROKER_ID, processor.apply_broker_id),
    )
    of_each = (
        Row(catalog.CONTROLLER_GET_METADATA_INFO, processor.get_metadata),
        Row(catalog.UPDATE_CONTROLLER_CONFIG, processor.update_config),
        Row(catalog.GET_CONTROLLER_CONFIG, processor.get_config),
        Row(catalog.BROKER_HEARTBEAT, processor.heartbeat),
        Row(catalog.CONTROLLER_GROUP, processor.group_request),
    )
    led = (Row(row.rpc, partial(_at_leader, controller, row.handler)) for row in of_leader)
    return table_of((*led, *of_each), controller.release)


def _at_leader(controller: Controller, handler: Handler, call: Call[Any]) -> Result:
    """The answer of *handler* when it holds.  Raises ``Refusal`` at a controller that follows."""
    controller.check_leads()
    reply = handler(call)
    assert isinstance(reply, Reply), "no handler of this file waits"
    return controller.answered(reply, call.now_ms)


class ControllerRequestProcessor:
    """The handlers of one controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    # Brokers --------------------------------------------------------------------------

    def get_next_broker_id(self, call: Call[GetNextBrokerIdRequest]) -> Reply:
        """The id that a new broker may apply for."""
        return self._controller.replicas.get_next_broker_id(call.request)

    def apply_broker_id(self, call: Call[ApplyBrokerIdRequest]) -> Reply:
        """Give a broker an id; CONTROLLER_BROKER_ID_INVALID if another has it."""
        controller = self._controller
        return controller.commit(controller.replicas.apply_broker_id(call.request))

    def register_broker(self, call: Call[RegisterBrokerToControllerRequest]) -> Reply:
        """Answer a broker with an id who the living master is; record its address."""
        controller = self._controller
        is_alive = controller.is_alive(call.now_ms)
        return controller.commit(controller.replicas.register_broker(call.request, is_alive))

    def heartbeat(self, call: Call[BrokerHeartbeatRequest]) -> Reply:
        """Keep a broker alive; brokers send it one-way."""
        self._controller.heartbeat(call.request, call.peer, call.now_ms)
        return Reply(remark="Heart beat success")

    def elect_master(self, call: Call[ElectMasterRequest]) -> Reply:
        """Elect a master; CONTROLLER_MASTER_STILL_EXIST names the one that is alive."""
        return self._controller.elect_master(call.request, call.now_ms)

    def alter_sync_state_set(self, call: Call[AlterSyncStateSetRequest]) -> Reply:
        """Replace the sync-state set, if the master asks for it."""
        controller = self._controller
        wanted = decode_body(call.body, SyncStateSet)
        is_alive = controller.is_alive(call.now_ms)
        decision = controller.replicas.alter_sync_state_set(call.request, wanted, is_alive)
        return controller.commit(decision)

    # Brokers and tools: reading -------------------------------------------------------

    def get_replica_info(self, call: Call[GetReplicaInfoRequest]) -> Reply:
        """The master and the sync-state set of one name."""
        return self._controller.replicas.get_replica_info(call.request.broker_name)

    def get_metadata(self, _call: Call[Header]) -> Reply:
        """The controllers of the group, and which of them leads, if that is known."""
        settings, group = self._controller.settings, self._controller.group
        config, peers = settings.config, peers_in(settings.peers)
        leader = config.self_id if group is None else group.leader
        header = GetMetaDataReply(
            group=config.group,
            controller_leader_id=leader,
            controller_leader_address=peers.get(leader, ""),
            is_leader=leader == config.self_id,
            peers="".join(f"{name}:{address};" for name, address in peers.items()),
        )
        return Reply(header)

    def group_request(self, call: Call[Header]) -> Reply:
        """A request of another controller of the group."""
        group = self._controller.group
        if group is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "this controller is alone")
        try:
            found = group.handle(decode_group_request(call.body), call.now_ms)
            return Reply(body=msgspec.json.encode(found))
        except msgspec.MsgspecError as error:
            raise BadFields(f"no request of a controller: {error}") from error
        except WRITE_ERRORS as error:
            remark = f"the controller's disk cannot be written: {error}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from error

    def get_sync_state_data(self, call: Call[Header]) -> Reply:
        """The replicas of the names in the body; SYSTEM_ERROR without names, as in upstream."""
        names = _names_in(call.body)
        if not names:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "no broker names are given")
        controller = self._controller
        return controller.replicas.get_sync_state_data(names, controller.is_alive(call.now_ms))

    # Tools: changing ------------------------------------------------------------------

    def clean_broker_data(self, call: Call[CleanControllerBrokerDataRequest]) -> Reply:
        """Remove brokers or a name; CONTROLLER_INVALID_CLEAN_BROKER_METADATA if one is alive."""
        controller = self._controller
        is_alive = controller.is_alive(call.now_ms)
        return controller.commit(controller.replicas.clean_broker_data(call.request, is_alive))

    def update_config(self, call: Call[Header]) -> Reply:
        """Change the settings in the body, the text of a Java properties file.

        Raises ``Refusal``.  Settings that change nothing are ignored with a warning and answered
        SUCCESS, as upstream does.
        """
        try:
            wanted = java_properties.parse_body(call.body)
        except java_properties.TextTooLong as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        except ValueError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "string2Properties error") from error
        if ignored := self._controller.settings.update(wanted):
            self._controller.note(SettingsIgnored(call.peer.address, ignored))
        return Reply()

    def get_config(self, _call: Call[Header]) -> Reply:
        """All settings, as the text of a Java properties file."""
        properties = self._controller.settings.properties()
        return Reply(body=java_properties.render(properties).encode())


def _names_in(body: bytes) -> list[str]:
    """The names in a JSON array.  Raises ``BadFields``."""
    if len(body) > NAMES_BYTES_MAX:
        raise BadFields(f"{len(body)} bytes of broker names: the limit is {NAMES_BYTES_MAX}")
    if not body:
        return []
    try:
        found = java_json.read(body)
        return msgspec.convert(found, list[str]) if found is not None else []
    except (java_json.NotJson, msgspec.ValidationError, RecursionError) as error:
        raise BadFields(f"the body is no list of broker names: {error}") from error
