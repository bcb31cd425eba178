"""Registration: keeps this broker in the routes of every NameServer.

A round registers at all NameServers at once and waits for all of them: at start, ten seconds
later, then every thirty seconds.  A NameServer that has not registered this broker yet gets the
request again much sooner, so a broker may start before its NameServer.  A changed topic is
registered at once: before 5.1.4 with the whole table and without waiting; since 5.1.4 alone, and
the first send to the topic waits for the registration.

Upstream: BrokerController.registerBrokerAll, BrokerOuterAPI.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import RegisteredWith, RegistrationFailing, RegistrationRecovered
from rocketmq_emulator.net.tasks import NextPass, every_async
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.registration import (
    RegisterBrokerBody,
    crc32,
    encode_register_broker,
)
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
)
from rocketmq_emulator.protocol.codes import ResponseCode, response_name
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.requests.nameserver import (
    RegisterBrokerReply,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)
from rocketmq_emulator.settings.releases import ACTING_MASTER_SENT

if TYPE_CHECKING:
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.net.tasks import OpenNursery, TaskNursery
    from rocketmq_emulator.net.timers import Timer

H = TypeVar("H", RegisterBrokerRequest, UnregisterBrokerRequest)

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 10_000, 60_000
UNREGISTER_MS_MAX = 3_000
SMALL_TOPICS_MAX = 200  # a table of up to so many topics is sent in every pass that changed it
LARGE_TOPICS_PER_MS = 20  # a larger table: NameServers are busy with it a tenth of the time
RETRY_STEPS = (1.0, 2.5, 5.0)  # times register_retry_ms; at least a sixtieth of the time failing


class _RegistrationRound:
    """One registration at *name_servers*, and their answers in the order of arrival."""

    def __init__(self, name_servers: tuple[str, ...], *, is_retry: bool = False) -> None:
        self.name_servers = name_servers  # these, even if ``use`` is called during the round
        self.is_retry = is_retry
        self._answers: deque[tuple[str, RemotingCommand | RemoteError]] = deque()
        self._has_more = trio.Event()

    def answered(self, address: str, reply: RemotingCommand | RemoteError) -> None:
        self._answers.append((address, reply))
        self._has_more.set()

    async def wait_answer(self) -> tuple[str, RemotingCommand | RemoteError]:
        while not self._answers:
            self._has_more = trio.Event()
            await self._has_more.wait()
        return self._answers.popleft()


class NameServerRegistration:
    """Registers one broker at intervals; each round is a fact."""

    def __init__(self, broker: Broker, client: RemotingClient, nursery: TaskNursery) -> None:
        self._broker = broker
        self._failing_since_ms: dict[str, int] = {}  # by address of a NameServer
        self._has_registered: set[str] = set()  # NameServers that did so at least once
        self._now_ms = client.clock.now_ms
        self._client = client
        self._nursery = nursery
        self._namesrv = broker.config.namesrv
        self._address = broker.address  # as registered
        self._whole: tuple[DataVersion, int, bytes] | None = None  # the body that was sent last
        self._unsent: dict[str, None] = {}  # changed topics that wait for the whole table
        self._is_whole_due = False
        self._not_before_ms = 0
        self._due: Timer | None = None
        self._is_send_planned = False
        self._next_pass = NextPass(self._send_pending)
        nursery.start_soon(self._next_pass.run)

    def use(self, name_servers: tuple[str, ...]) -> None:
        """Register at *name_servers* from the next round on, instead of the present ones."""
        self._namesrv = name_servers

    def name_servers(self) -> tuple[str, ...]:
        """The NameServers of the next round."""
        return self._namesrv

    async def run(self) -> None:
        """Run a round at the configured interval; never returns."""
        first_ms = self._broker.config.register_first_ms
        await every_async(self._interval_ms, self.register, first_ms=first_ms)

    async def register(self) -> None:
        """One round: register the whole table at every NameServer.  Failures are facts.

        An isolated broker does not register.  Upstream: BrokerController.start.
        """
        if not self._broker.members.is_isolated:
            await self._finish(self._begin(None))

    def register_soon(self) -> None:
        """Register the whole table now, in a task of its own; isolated or not.

        Upstream: ReplicasManager.registerBrokerWhenRoleChange.
        """
        begun = self._begin(None)
        self._nursery.start_soon(self._finish, begun)

    def announce(self, topics: Sequence[TopicConfig] | None, bell: Hashable | None) -> None:
        """Register *topics* that are new or have changed, or all topics; then ring *bell*.

        The bell rings when every NameServer has answered or failed.  To be called before the
        next change: a 4.x NameServer ignores a registration whose data version it has seen, so
        each must carry the version of its own change.
        Upstream: AdminBrokerProcessor.updateAndCreateTopic is synchronized.
        """
        names = [topic.topic_name or "" for topic in topics or ()]
        if self._broker.members.is_isolated:  # the registration that ends it has every topic
            if bell is not None:
                self._broker.later(0, lambda _now_ms: self._broker.registered(names, bell))
            return
        if bell is None:
            self._unsent.update(dict.fromkeys(names))
            self._is_whole_due = True
            if (
                not self._is_send_planned
            ):  # the first of a pass is sent before the reply to the call that caused it
                self._send_whole_when_due()
            self._is_send_planned = True
            self._next_pass.ask()
            return
        if self._address != self._broker.address:
            before, self._address = self._address, self._broker.address
            self._nursery.start_soon(self._move, before, bell)
            return
        # NameServers may ignore a whole table sent later, so include the topics waiting for it.
        begun = self._begin(None if topics is None else [*self._unsent, *names])
        self._unsent.clear()

        async def finish_and_ring() -> None:
            await self._finish(begun)
            self._broker.registered(names, bell)

        self._nursery.start_soon(finish_and_ring)

    def _send_pending(self) -> None:
        self._is_send_planned = False
        self._send_whole_when_due()

    def _send_whole_when_due(self) -> None:
        """Send the whole table: at most twice in a pass, and less often if it is large.

        Upstream sends it for each change.  No peer can notice the difference: the request is
        one-way, a later table contains all earlier changes, and a NameServer accepts the topics
        of every version that is new to it.
        """
        if not self._is_whole_due:
            return
        now_ms = self._now_ms()
        if now_ms < self._not_before_ms:
            at_s = self._client.clock.trio_time(self._not_before_ms)
            if self._due is None or self._due.action is None:
                self._due = self._client.timers.at(at_s, self._send_whole_when_due)
            return
        self._is_whole_due = False
        self._unsent.clear()
        count = len(self._broker.topics.topic_config_table)
        self._not_before_ms = (
            now_ms + count // LARGE_TOPICS_PER_MS if count > SMALL_TOPICS_MAX else 0
        )
        header, body = self._request(None)
        for address in self._namesrv:
            addressed = self._addressed_for(address, header)
            self._client.send_oneway(address, catalog.REGISTER_BROKER, addressed, body)

    @property
    def _interval_ms(self) -> int:
        """The interval of rounds, within upstream's limits.  Upstream: BrokerController.start."""
        config = self._broker.config
        return min(max(config.register_interval_ms, INTERVAL_MS_MIN), INTERVAL_MS_MAX)

    async def _retry(self, address: str) -> None:
        """Send the registration to one NameServer until it has accepted it once."""
        attempt = 0
        while address not in self._has_registered and address in self._namesrv:
            await trio.sleep(self._retry_ms(address, attempt) / 1_000)
            await self._finish(self._begin(None, _RegistrationRound((address,), is_retry=True)))
            attempt += 1

    def _retry_ms(self, address: str, attempt: int) -> int:
        config = self._broker.config
        step = RETRY_STEPS[min(attempt, len(RETRY_STEPS) - 1)]
        failing_ms = self._now_ms() - self._failing_since_ms.get(address, self._now_ms())
        wait_ms = max(int(step * config.register_retry_ms), failing_ms // 60)
        return min(wait_ms, self._interval_ms)

    def _begin(
        self, topics: Sequence[str] | None, begun: _RegistrationRound | None = None
    ) -> _RegistrationRound:
        """Register the present *topics* (None: all) at all NameServers, or at those of *begun*.

        The requests are sent before this returns: every NameServer gets versions in order.
        """
        header, body = self._request(topics)
        begun = begun or _RegistrationRound(self._namesrv)
        for address in begun.name_servers:
            self._client.invoke_async(
                address,
                catalog.REGISTER_BROKER,
                self._addressed_for(address, header),
                body,
                timeout_ms=self._broker.register_call_ms_max,
                on_done=partial(self._answered, begun, address),
            )
        return begun

    def _answered(
        self, begun: _RegistrationRound, address: str, reply: RemotingCommand | RemoteError
    ) -> None:
        """Add an answer to the round.

        Upstream registers with invokeSync, in a thread for each NameServer.
        """
        begun.answered(address, reply)
        self._client.close_if_timed_out(address, reply)

    async def _finish(self, begun: _RegistrationRound) -> None:
        """Wait for every answer, note the result, and mark the topics that are ordered."""
        accepted: dict[str, RemotingCommand] = {}
        failed: list[str] = []
        for _ in begun.name_servers:
            address, reply = await begun.wait_answer()
            if isinstance(reply, RemoteError):
                failed.append(address)
                self._note_failure(address, str(reply).removeprefix(f"{address}: "))
            elif reply.code == ResponseCode.SUCCESS:
                accepted[address] = reply
                self._note_success(address)
            else:
                failed.append(address)
                name = response_name(reply.code, self._broker.release)
                self._note_failure(address, f"{name}: {reply.remark or ''}")
        if accepted or (failed and not begun.is_retry):
            self._broker.note(RegisteredWith(tuple(sorted(accepted)), tuple(sorted(failed))))
        for reply in list(accepted.values())[:1]:  # as upstream: the first answer counts
            self._mark_ordered(reply.body)
            self._learn_master(reply)

    async def unregister(self, open_nursery: OpenNursery) -> None:
        """Unregister at every NameServer, as a clean shutdown does."""
        async with open_nursery() as nursery:
            for address in self._namesrv:
                nursery.start_soon(self._unregister_at, address, self._address)

    async def _move(self, before: str, bell: Hashable) -> None:
        """Replace the address *before* at every NameServer by the present one; then ring *bell*.

        Unregister and wait first: a NameServer would keep *before* until it expires, and one of
        4.x unregisters by the broker's id, so it would remove an address registered meanwhile.
        """
        for address in self._namesrv:
            await self._unregister_at(address, before)
        await self.register()
        self._broker.registered((), bell)

    async def _unregister_at(self, address: str, own_address: str) -> None:
        broker = self._broker
        header = UnregisterBrokerRequest(
            broker_name=broker.config.name,
            broker_addr=own_address,
            cluster_name=broker.config.cluster,
            broker_id=broker.config.broker_id,
        )
        addressed = self._addressed_for(address, header)
        try:
            await self._client.invoke(
                address, catalog.UNREGISTER_BROKER, addressed, timeout_ms=UNREGISTER_MS_MAX
            )
        except RemoteError as error:
            # The NameServer removes this broker when it sees the connection close.
            broker.note(RegisteredWith((), (error.address,)))

    def _note_failure(self, address: str, error: str) -> None:
        """Note only the first of consecutive failures."""
        if address in self._failing_since_ms:
            return
        since_ms = self._failing_since_ms[address] = self._now_ms()
        is_retried = self._broker.config.register_retry_ms and address not in self._has_registered
        retry_ms = self._retry_ms(address, 0) if is_retried else self._interval_ms
        self._broker.note(RegistrationFailing(address, error, since_ms, retry_ms))
        if is_retried:
            self._nursery.start_soon(self._retry, address)

    def _note_success(self, address: str) -> None:
        self._has_registered.add(address)
        since_ms = self._failing_since_ms.pop(address, None)
        if since_ms is not None:
            self._broker.note(RegistrationRecovered(address, self._now_ms() - since_ms))

    def _mark_ordered(self, body: bytes) -> None:
        """Mark the ordered topics, which *body*, a NameServer's answer, lists."""
        try:
            table = decode_unlimited_body(body, KVTable).table if body else {}
        except BadFields:
            return  # an answer that cannot be read lists none
        self._broker.topics.set_order(table, self._now_ms())

    def _learn_master(self, reply: RemotingCommand) -> None:
        """Tell a slave its master; a master is told nothing.

        Upstream: BrokerController.handleRegisterBrokerResult.
        """
        if not self._broker.config.is_slave:
            return
        try:
            found = reply.decode(RegisterBrokerReply)
        except BadFields:
            return
        self._broker.learn_master(found.master_addr, found.ha_server_addr)

    def _request(self, topics: Sequence[str] | None) -> tuple[RegisterBrokerRequest, bytes]:
        """A registration of *topics* (None: all) with the present data version."""
        broker = self._broker
        config = broker.config
        body = self._whole_body() if topics is None else self._body(topics)
        acts = config.slave_acting_master
        header = RegisterBrokerRequest(
            broker_name=config.name,
            broker_addr=broker.address,
            cluster_name=config.cluster,
            ha_server_addr=broker.ha_address,
            broker_id=config.broker_id,
            body_crc32=crc32(body),
            heartbeat_timeout_millis=config.broker_silence_ms_max if acts else None,
            enable_acting_master=acts if broker.release >= ACTING_MASTER_SENT else None,
        )
        return header, body

    def own_address_at(self, name_server: str) -> str:
        """The address of this broker as it is registered at *name_server*."""
        return self._broker.config.advertised_to.get(name_server, self._broker.address)

    def _addressed_for(self, name_server: str, header: H) -> H:
        """*header* with the broker address configured for clients of *name_server*."""
        other = self._broker.config.advertised_to.get(name_server)
        return header if other is None else msgspec.structs.replace(header, broker_addr=other)

    def _whole_body(self) -> bytes:
        version, perm = self._broker.topics.data_version, self._broker.config.perm
        if self._whole is None or self._whole[:2] != (version, perm):
            body = self._body(self._broker.topics.topic_config_table)
            self._whole = version, perm, body
        return self._whole[2]

    def _body(self, topics: Iterable[str]) -> bytes:
        broker = self._broker
        wrapper = TopicConfigAndMappingSerializeWrapper(
            topic_config_table=broker.advertised_table(topics),
            data_version=broker.topics.data_version,
        )
        table = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper, filter_server_list=[])
        return encode_register_broker(table, broker.release, compressed=False)
