"""Handlers that are wrong by name (``emulator.quirks``): they take the place of right ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from emulator.broker.handlers.clients import ClientManageProcessor
from emulator.net.results import Call, Peer, Result, Wait
from emulator.quirks import quirks_of
from protocol.bodies.body import decode_body
from protocol.bodies.groups import ConsumerData, HeartbeatData
from protocol.fields import Header
from protocol.names import retry_topic


def client_processor(names: Iterable[str]) -> type[ClientManageProcessor]:
    """What answers heartbeats with these quirks on."""
    for name in quirks_of("broker", names):
        if name in CLIENT_PROCESSORS:
            return CLIENT_PROCESSORS[name]
    return ClientManageProcessor


class WaitingHeartbeats(ClientManageProcessor):
    """Who brings a new group is registered and answered when every NameServer knows its topic.

    Its connection may be closed by then: it is a member all the same, until it expires.
    """

    def heartbeat(self, call: Call[Header]) -> Result:
        """The heartbeats after it find the topic, and do not wait."""
        topics = self._broker.topics
        for group in decode_body(call.body, HeartbeatData).consumer_data_set:
            name = retry_topic(group.group_name or "")
            if topics.get(name) is None and (bell := self._make(group, name, call)) is not None:
                until_ms = call.now_ms + self._broker.register_call_ms_max
                return Wait(bell, until_ms, lambda now_ms, _expired: self._then(call, now_ms))
        return super().heartbeat(call)

    def _make(self, group: ConsumerData, topic: str, call: Call[Header]) -> Hashable | None:
        broker = self._broker
        config = broker.groups.find(group.group_name or "", call.now_ms, by="heartbeat")
        if config is None:
            return None
        broker.ensure_topic(topic, config.retry_queue_nums, call.now_ms, by="heartbeat")
        return broker.registering(topic)

    def _then(self, call: Call[Header], now_ms: int) -> Result:
        call.now_ms = now_ms
        return self.heartbeat(call)

    def _counts(self, _peer: Peer) -> bool:
        return True


CLIENT_PROCESSORS: Mapping[str, type[ClientManageProcessor]] = {
    "wait_for_name_servers": WaitingHeartbeats
}
