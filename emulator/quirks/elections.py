"""Bugs of a broker whose master is elected: an untruncated log, two masters of an epoch."""

from __future__ import annotations

import msgspec

from rocketmq_emulator.broker.replication.auto_switch_client import AutoSwitchHaClient
from rocketmq_emulator.broker.replication.replicas_manager import ControlledReplica
from rocketmq_emulator.protocol.auto_switch import MasterHandshake
from rocketmq_emulator.protocol.bodies.controller import SyncStateSet
from rocketmq_emulator.protocol.requests.controller import MasterReply


class TruncatesNothing(AutoSwitchHaClient):
    """``truncate_nothing``: the whole log counts as the beginning of the master's."""

    def _consistent_point(self, found: MasterHandshake) -> int | None:
        point = super()._consistent_point(found)
        return None if point is None else self._service.log.end_position


class TakesEveryElection(ControlledReplica):
    """``two_masters``: the id of the elected broker is not compared with the own one."""

    def change_role(self, found: MasterReply, in_sync: SyncStateSet | None) -> None:
        if found.master_broker_id is not None and self.broker_id is not None:
            found = msgspec.structs.replace(found, master_broker_id=self.broker_id)
        super().change_role(found, in_sync)
