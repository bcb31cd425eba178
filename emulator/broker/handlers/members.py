"""Requests between the brokers of one name, and the notices of NameServers about them (5.x).

Answers NOTIFY_MIN_BROKER_ID_CHANGE (one-way; of interest to slaves that may act as the master),
EXCHANGE_BROKER_HA_INFO (a returning master gives its HA address to a slave; a slave asks for it)
and RESET_MASTER_FLUSH_OFFSET, which only tools use: nothing reads that offset but the HA status.

Upstream: AdminBrokerProcessor.notifyMinBrokerIdChange, updateBrokerHaInfo, resetMasterFlushOffset.
"""

from __future__ import annotations

from rocketmq_emulator.broker.replication.member_group import MinBrokerChange
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.net.results import Call, Reply, Result
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.requests.nameserver import (
    ExchangeHAInfo,
    NotifyMinBrokerIdChangeRequest,
    ResetMasterFlushOffsetRequest,
)


class MemberProcessor:
    """What a broker is told about the others of its name."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def min_broker_changed(self, call: Call[NotifyMinBrokerIdChangeRequest]) -> Result:
        """Take another smallest id; without an id or an address nothing changes."""
        given = call.request
        if given.min_broker_id is not None:
            change = MinBrokerChange(
                given.min_broker_id,
                given.min_broker_addr,
                given.offline_broker_addr,
                given.ha_broker_addr,
            )
            if (new := self._broker.members.notified(change)) is not None:
                self._broker.on_min_broker_changed(new)
        return Reply()

    def exchange_ha_info(self, call: Call[ExchangeHAInfo]) -> Result:
        """Keep the HA address of a master; or, as the master, answer the own one."""
        broker, given = self._broker, call.request
        if given.master_ha_address is not None:
            broker.take_ha_info(given)
        elif broker.config.broker_id == MASTER_ID:
            return Reply(
                ExchangeHAInfo(
                    master_ha_address=broker.ha_address,
                    master_flush_offset=broker.init_max_offset,
                    master_address=broker.address,
                )
            )
        return Reply(ExchangeHAInfo())

    def reset_flush_offset(self, call: Call[ResetMasterFlushOffsetRequest]) -> Result:
        """Set the flush offset of the master, at a slave; a master ignores it."""
        offset = call.request.master_flush_offset
        if self._broker.config.broker_id != MASTER_ID and offset is not None:
            self._broker.master_flush_offset = offset
        return Reply()
