"""The broker as a value: its tables, its store, and one literal table of what it answers.

Handlers by theme read and change what hangs here, through the few verbs below.  What
they say besides their answers goes through outlets: ``note``, ``ring``, ``push`` and
``announce`` (a topic is new or has changed: tell the NameServers).

Upstream: BrokerController.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from emulator.broker.handlers.admin import Admin
from emulator.broker.handlers.clients import Clients
from emulator.broker.handlers.pulling import Pulling
from emulator.broker.handlers.queue_offsets import QueueOffsets
from emulator.broker.handlers.send_back import SendBack
from emulator.broker.handlers.sending import Sending
from emulator.broker.store.delays import Delays
from emulator.broker.store.messages import Messages
from emulator.broker.store.store import Store
from emulator.broker.tables.consumers import Consumers
from emulator.broker.tables.limits import check_room, check_size
from emulator.broker.tables.locks import RebalanceLocks
from emulator.broker.tables.offsets import ConsumerOffsets
from emulator.broker.tables.producers import Producers
from emulator.broker.tables.subscription_groups import SubscriptionGroups
from emulator.broker.tables.topics import Topics
from emulator.config import BrokerConfig
from emulator.disk.port import NOT_WRITTEN, Disk
from emulator.facts import Queue
from emulator.journal import Journal
from emulator.net.handler_table import Table
from emulator.net.results import Peer, Push, Refusal, Ring
from emulator.releases import FIVE, INVALID_PARAMETER_CODE, REGISTER_TOPIC_SYNCHRONOUSLY
from protocol import perm
from protocol.bodies.topics import TopicConfig
from protocol.codes import ResponseCode
from protocol.fields import Header
from protocol.hosts import host_bytes

Announce = Callable[[TopicConfig, Hashable | None], None]
REGISTER_MS_MAX, REGISTER_MS_MAX_5 = 6_000, 24_000


class Broker:
    """One broker.  *disk* holds what it remembers; *now_ms* is when it starts."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk,
        rng: random.Random,
        journal: Journal,
        now_ms: int,
    ) -> None:
        self.config = config
        self.release = config.profile
        self.bad_parameter_code = (
            ResponseCode.INVALID_PARAMETER
            if self.release >= INVALID_PARAMETER_CODE
            else ResponseCode.SYSTEM_ERROR
        )
        self.note = journal.note
        self.wants = journal.wants
        self._ring: Ring = _unheard
        self._push: Push = _unpushed
        self._announce: Announce = _unannounced
        self._registering: dict[str, Hashable] = {}
        self.address = config.advertised_address or config.listen_address
        self.topics = Topics(disk, config, note=self.note, now_ms=now_ms)
        self.groups = SubscriptionGroups(disk, config, note=self.note, now_ms=now_ms)
        self.offsets = ConsumerOffsets(disk, config, note=self.note)
        self.locks = RebalanceLocks(config.lock_ms_max)
        self.consumers = Consumers()
        self.producers = Producers()
        self.store = Store(
            disk,
            config,
            host_bytes(config.listen_address),
            note=self.note,
            wants=self.wants,
            ring=self.ring,
        )
        self.delays = Delays(self.store, disk, config, note=self.note, began_ms=now_ms)
        self.messages = Messages(self.store, self.delays, config)
        self._clients = Clients(self)
        self.handlers: Table = {
            **Sending(self, rng).handlers(),
            **SendBack(self, rng).handlers(),
            **Pulling(self, now_ms).handlers(),
            **self._clients.handlers(),
            **QueueOffsets(self).handlers(),
            **Admin(self).handlers(),
        }

    # For the shell --------------------------------------------------------------------

    def connect(self, ring: Ring, push: Push, announce: Announce) -> None:
        """From here on what is said is heard."""
        self._ring, self._push, self._announce = ring, push, announce

    def listens_at(self, address: str, store_host: str) -> None:
        """The port is known.  *address* is what clients are told, perhaps a name.

        Messages say that they are stored at *store_host*, the same as an IP.
        """
        self.address = address
        self.store.store_host = host_bytes(store_host)

    def closed(self, peer: Peer, _now_ms: int) -> None:
        self._clients.closed(peer)

    def expire_clients(self, now_ms: int) -> list[Peer]:
        return self._clients.expire(now_ms)

    def close(self) -> None:
        self.offsets.persist()
        self.delays.persist()
        self.store.close()

    # For handlers ---------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> Queue:
        """How facts name one of its queues."""
        return Queue(topic, self.config.name, queue_id)

    def ring(self, bell: Hashable, news: Any) -> None:
        self._ring(bell, news)

    def push(self, peer: Peer, code: int, header: Header | None, body: bytes) -> bool:
        return self._push(peer, code, header, body)

    @property
    def store_host(self) -> bytes:
        return self.store.store_host

    @property
    def ha_address(self) -> str:
        """Nobody listens there yet; upstream's port is the main one plus one."""
        host, _, port = self.address.rpartition(":")
        return f"{host}:{int(port) + 1}"

    @property
    def register_call_ms_max(self) -> int:
        own = REGISTER_MS_MAX_5 if self.release >= FIVE else REGISTER_MS_MAX
        return self.config.register_call_ms_max or own

    def advertised(self, topic: TopicConfig) -> TopicConfig:
        """What the NameServers hear of a topic while the broker's own permission is restricted."""
        if self.config.perm == perm.READ | perm.WRITE:
            return topic
        own = self.config.perm
        shown = topic.perm & own if self.release >= FIVE else own
        return msgspec.structs.replace(topic, perm=shown)

    # Topics ---------------------------------------------------------------------------

    def create_topic_on_send(
        self, name: str, template: str, queues_max: int, now_ms: int
    ) -> TopicConfig | None:
        self._check_room_for(name)
        made = self.topics.create_on_send(name, template, queues_max, now_ms)
        return None if made is None else self._announced(made)

    def ensure_topic(self, name: str, queues: int, now_ms: int, *, by: str) -> TopicConfig:
        known = self.topics.get(name)
        if known is not None:
            return known
        self._check_room_for(name)
        return self._announced(self.topics.create_internal(name, queues, now_ms, by=by))

    def update_topic(self, topic: TopicConfig, now_ms: int) -> Hashable | None:
        """An administrator hears of success when every NameServer knows; the bell to wait for."""
        self._check_room_for(topic.topic_name or "")
        queues = max(topic.read_queue_nums, topic.write_queue_nums)
        check_size(queues, self.config.topic_queues_max, "queues of a topic")
        self.topics.update(topic, now_ms)
        self._announced(topic, must_be_heard=True)
        return self._registering.get(topic.topic_name or "")

    def _check_room_for(self, topic: str) -> None:
        table = self.topics.topic_config_table
        if topic not in table:
            check_room(len(table), self.config.topics_max, "topics")

    def delete_topic(self, name: str, now_ms: int) -> None:
        """The NameServers keep their route until they are asked to delete it too.

        Raises ``Refusal`` if the disk will not remember it, and then nothing is deleted.
        """
        try:
            self.store.drop_topic(name)
        except NOT_WRITTEN as error:
            remark = f"the topic {name} cannot be deleted: {error}"
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
        self.topics.delete(name, now_ms)
        if self.release >= FIVE:
            self.offsets.forget_topic(name)

    def registering(self, topic: str) -> Hashable | None:
        """The bell that rings when every NameServer knows *topic*; None if nobody need wait."""
        return self._registering.get(topic)

    def registered(self, topic: str, bell: Hashable) -> None:
        self._registering.pop(topic, None)
        self._ring(bell, None)

    def _announced(self, topic: TopicConfig, *, must_be_heard: bool = False) -> TopicConfig:
        if not self.config.namesrv:
            return topic
        bell: Hashable | None = None
        must_be_heard = must_be_heard or self.release >= REGISTER_TOPIC_SYNCHRONOUSLY
        if must_be_heard and self._announce is not _unannounced:
            name = topic.topic_name or ""
            bell = self._registering[name] = ("registered", name)
        self._announce(topic, bell)
        return topic


def _unheard(_bell: Hashable, _news: Any) -> None:
    """Before the shell is there nobody waits."""


def _unpushed(_peer: Peer, _code: int, _header: Header | None, _body: bytes) -> bool:
    return False


def _unannounced(_topic: TopicConfig, _bell: Hashable | None) -> None:
    """Before the shell is there nobody need be told: the first round tells everything."""
