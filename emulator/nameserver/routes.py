"""Which broker serves which topic: told by brokers, taken away by silence.

Nothing here survives a restart and no NameServer talks to another: every broker tells
every one of them.  A registration only adds or overwrites topics; they leave with the
*last* replica of their broker, so a route may go on promising writes to a broker that
has lost its master.  Upstream: RouteInfoManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.facts import BrokerExpired, BrokerUnregistered, WritePermChanged
from emulator.nameserver.brokers import Brokers, Replicas
from emulator.nameserver.liveness import BrokerKey, LiveBroker, Liveness
from emulator.nameserver.min_broker_id import IdsChanged
from emulator.nameserver.registration import MasterSeen, Registration
from emulator.nameserver.topics import Topics
from emulator.net.results import Peer, Refusal
from emulator.releases import FIVE, UNREGISTERED_BY_ADDRESS
from protocol.bodies.routes import QueueData
from protocol.codes import ResponseCode
from protocol.names import MASTER_ID
from protocol.perm import READ_WRITE, WRITE
from protocol.requests.registration import RegisterBrokerReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.facts import Note
    from emulator.nameserver.settings import Settings
    from protocol.bodies.topics import TopicConfig


class Routes:
    """The tables and the rules that change them; ``lookup`` reads them.

    *ids_changed* hears when the smallest id of a broker name is another one.
    """

    def __init__(
        self, settings: Settings, note: Note, ids_changed: Callable[[IdsChanged], object]
    ) -> None:
        config = settings.config
        self.topics = Topics(config.topics_max)
        self.brokers = Brokers(config.brokers_max)
        self.live = Liveness(config.brokers_max)
        self._settings = settings
        self._note = note
        self._ids_changed = ids_changed
        self._five = settings.release >= FIVE

    def key(self, cluster: str, address: str) -> BrokerKey:
        return BrokerKey(cluster if self._five else "", address)

    # Brokers come ---------------------------------------------------------------------

    def register(self, said: Registration, peer: Peer, now_ms: int) -> MasterSeen:
        """Raises ``Refusal``: the tables are full or, 5.x, a stranger brings a single topic."""
        key = self.key(said.cluster, said.address)
        self._check_room(said, key)
        replicas = self._replicas_of(said)
        smallest_before = replicas.smallest_id
        replicas.keep_one_id(said.address, said.broker_id)
        if self._five and self._is_outdated(said, replicas):
            self.live.forget(key)
            return MasterSeen()
        if self._five and said.broker_id not in replicas.addresses and len(said.topics) == 1:
            # It would pass for the whole of a broker whose other topics nobody here knows.
            remark = "register broker failed"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark, RegisterBrokerReply())
        first = not replicas.addresses.get(said.broker_id)
        replicas.addresses[said.broker_id] = said.address
        if said.broker_id == MASTER_ID or self._is_prime_slave(said, replicas):
            self._take_topics(said, first=first)
        self.live.heard(key, self._live(said, peer, now_ms), said.filter_servers)
        self._note(said.fact(first=first))
        if said.broker_id < smallest_before:
            self._ids_changed(IdsChanged(replicas, came_ha_address=said.ha_address))
        return self._master_seen_by(said, replicas)

    # Brokers go -----------------------------------------------------------------------

    def unregister(self, cluster: str, broker: str, broker_id: int, address: str) -> None:
        """5.x applies this in batches, an instant after its answer; here it is done before."""
        self.live.forget(self.key(cluster, address))
        replicas = self.brokers.broker_addr_table.get(broker)
        if replicas is None:
            return
        by_address = self._settings.release >= UNREGISTERED_BY_ADDRESS
        for number, where in list(replicas.addresses.items()):
            if where == address if by_address else number == broker_id:
                self._remove(replicas, number, cluster)
                self._note(BrokerUnregistered(broker, number, where, "asked"))

    def closed(self, peer: Peer) -> None:
        """A connection ended: who registered over it last is gone at once."""
        for key, live in self.live.of(peer):
            self._lose(key, live)
            gone = live.broker, live.broker_id, key.address
            self._note(BrokerUnregistered(*gone, "channel closed"))

    def expire(self, now_ms: int) -> list[Peer]:
        """Drop the silent; returns the connections they were last heard on, to be closed."""
        silent = self.live.silent(now_ms)
        for key, live in silent:
            self._lose(key, live)
            self._note(BrokerExpired(live.broker, key.address, now_ms - live.heard_ms))
        return [live.peer for _, live in silent]

    # Operators ------------------------------------------------------------------------

    def set_writable(self, broker: str, *, writable: bool) -> int:
        """Turn W off, or every perm into exactly RW; returns how many topics that touched."""
        touched = self.topics.change_perm(broker, _read_write if writable else _without_write)
        self._note(WritePermChanged(broker, touched, writable))
        return touched

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Forget the topic, or only what brokers of one cluster serve of it."""
        if cluster:
            self.topics.remove((topic,), self.brokers.names_in(cluster))
        else:
            self.topics.forget(topic)

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Take queues until one names a broker nobody knows.  Upstream: registerTopic."""
        self.topics.check_room((topic,))
        for queue in queues:
            if queue.broker_name not in self.brokers.broker_addr_table:
                return
            self.topics.put(topic, queue)

    # Inside: coming -------------------------------------------------------------------

    def _check_room(self, said: Registration, key: BrokerKey) -> None:
        self.live.check_room(key)
        self.brokers.check_room(said.broker, said.cluster)
        self.topics.check_room(said.topics, said.mappings)

    def _replicas_of(self, said: Registration) -> Replicas:
        replicas = self.brokers.named(said.broker, said.cluster)
        replicas.may_act = bool(said.may_act)
        replicas.zone = said.zone
        return replicas

    def _is_outdated(self, said: Registration, replicas: Replicas) -> bool:
        """Another address holds this id and was heard with a later state."""
        address = replicas.addresses.get(said.broker_id)
        if not address or address == said.address:
            return False
        held = self.live.data_version(self.key(said.cluster, address))
        return held is not None and held.state_version > said.data_version.state_version

    def _is_prime_slave(self, said: Registration, replicas: Replicas) -> bool:
        """5.x: the smallest id there is, though not the master's, of a broker that can act."""
        return said.may_act is not None and said.broker_id == replicas.smallest_id != MASTER_ID

    def _take_topics(self, said: Registration, *, first: bool) -> None:
        known = self.live.data_version(self.key(said.cluster, said.address))
        all_anew = first or known != said.data_version
        self._forget_unlisted(said)
        for topic, config in said.topics.items():
            # 4.x looks at the version alone, 5.x also at what is missing here.
            if all_anew or (self._five and not self.topics.knows(topic, said.broker)):
                self.topics.put(topic, _queue_data(said, config))
        if all_anew:
            self.topics.put_mappings(said.broker, said.mappings)

    def _forget_unlisted(self, said: Registration) -> None:
        if self._settings.config.delete_topic_with_broker_registration and not said.mappings:
            known = self.topics.at(said.broker)
            self.topics.remove([t for t in known if t not in said.topics], (said.broker,))

    def _live(self, said: Registration, peer: Peer, now_ms: int) -> LiveBroker:
        silence_ms_max = said.silence_ms_max
        if silence_ms_max is None:
            silence_ms_max = self._settings.config.broker_silence_ms_max
        return LiveBroker(
            broker=said.broker,
            broker_id=said.broker_id,
            heard_ms=now_ms,
            silence_ms_max=silence_ms_max,
            data_version=said.data_version,
            peer=peer,
            ha_address=said.ha_address,
        )

    def _master_seen_by(self, said: Registration, replicas: Replicas) -> MasterSeen:
        address = replicas.addresses.get(MASTER_ID)
        if said.broker_id == MASTER_ID or address is None:
            return MasterSeen()
        live = self.live.broker_live_table.get(self.key(said.cluster, address))
        return MasterSeen() if live is None else MasterSeen(address, live.ha_address)

    # Inside: going --------------------------------------------------------------------

    def _lose(self, key: BrokerKey, live: LiveBroker) -> None:
        self.live.forget(key)
        replicas = self.brokers.broker_addr_table.get(live.broker)
        if replicas is not None:
            for number in replicas.ids_at(key.address):
                self._remove(replicas, number, key.cluster or replicas.cluster)

    def _remove(self, replicas: Replicas, number: int, cluster: str) -> None:
        was_smallest = number == replicas.smallest_id
        address = replicas.addresses.pop(number)
        broker = replicas.broker
        if not replicas.addresses:
            self.brokers.drop(broker, cluster)
            self.topics.remove(self.topics.at(broker), (broker,))
        elif replicas.may_act:
            if MASTER_ID not in replicas.addresses:
                self.topics.change_perm(broker, _without_write)
            if was_smallest:
                self._ids_changed(IdsChanged(replicas, gone_address=address))


def _read_write(_: int) -> int:
    return READ_WRITE  # exactly: TBW102 loses its INHERIT


def _without_write(perm: int) -> int:
    return perm & ~WRITE


def _queue_data(said: Registration, config: TopicConfig) -> QueueData:
    acts = bool(said.may_act) and said.broker_id != MASTER_ID
    return QueueData(
        broker_name=said.broker,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=_without_write(config.perm) if acts else config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )
