"""Who produces: groups and their connections, for check-backs and replies.

Upstream: ProducerManager.
"""

from __future__ import annotations

from emulator.broker.tables.consumers import ClientChannel
from emulator.net.results import Peer


class Producers:
    """The producer table."""

    def __init__(self) -> None:
        self.producer_table: dict[str, dict[Peer, ClientChannel]] = {}

    def knows(self, group: str) -> bool:
        return group in self.producer_table

    def register(self, group: str, channel: ClientChannel) -> None:
        self.producer_table.setdefault(group, {})[channel.peer] = channel

    def unregister(self, group: str, peer: Peer) -> None:
        channels = self.producer_table.get(group)
        if channels is None:
            return
        channels.pop(peer, None)
        if not channels:
            del self.producer_table[group]

    def closed(self, peer: Peer) -> None:
        for group in [g for g, channels in self.producer_table.items() if peer in channels]:
            self.unregister(group, peer)

    def expire(self, now_ms: int, silence_ms_max: int) -> list[Peer]:
        silent = [
            (group, channel.peer)
            for group, channels in self.producer_table.items()
            for channel in channels.values()
            if now_ms - channel.last_update_ms > silence_ms_max
        ]
        for group, peer in silent:
            self.unregister(group, peer)
        return [peer for _, peer in silent]

    def channels(self, group: str) -> list[ClientChannel]:
        return list(self.producer_table.get(group, {}).values())
