"""A stream registers as a member of its group, so that it detects other members.

With ``group`` a stream commits its offsets, for tools that show how far behind a group is.  Two
streams of one group would overwrite each other's offsets, and a push consumer would lose messages.
So a stream registers with heartbeats, over a connection that closes when its process ends, and
does not start while there is another member.  Brokers remove a killed stream when its connection
closes, so a restarted stream waits a short time for that and then starts.
If another member joins later, the stream continues, and commits nothing until that member leaves.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
import uuid

from rocketmq_emulator.pipeline.source.broker_offsets import BrokerConnections
from rocketmq_emulator.pipeline.source.connection import BlockingConnection
from rocketmq_emulator.pipeline.source.errors import (
    GroupInUse,
    ServerRefused,
    ServerUnavailable,
    SourceError,
    TopicUnknown,
    retry_until_available,
)
from rocketmq_emulator.pipeline.source.options import SourceOptions
from rocketmq_emulator.pipeline.source.routing import NameServers
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    ConsumerData,
    GetConsumerListByGroupReply,
    HeartbeatData,
)
from rocketmq_emulator.protocol.catalog import (
    GET_CONSUMER_LIST_BY_GROUP,
    HEART_BEAT,
    UNREGISTER_CLIENT,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.requests.groups import (
    GetConsumerListByGroupRequest,
    UnregisterClientRequest,
)
from rocketmq_emulator.protocol.versions import R_4_9_7

HEARTBEAT_S = 30.0  # ClientConfig.heartbeatBrokerInterval; brokers remove a client after 120 s
log = logging.getLogger("rocketmq_emulator.spark")


class StreamMembership:
    """The member.  A thread sends its heartbeats over its own sockets while a batch runs."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._id = f"spark@{uuid.uuid4().hex[:12]}"
        self._name_servers = NameServers(options.namesrv, options.request_ms_max)
        self._brokers = BrokerConnections(options.request_ms_max)
        self._others: frozenset[str] = frozenset()
        self._is_registered = False
        self._end = socket.socketpair()  # readable when the thread has to end
        self._thread = threading.Thread(
            target=self._run_heartbeats, name="rocketmq-group", daemon=True
        )

    def join(self) -> None:
        """Registers, and waits until there is no other member.  Raises ``GroupInUse``."""
        try:
            retry_until_available(self._options.group_wait_ms_max, self._check_only_member)
        except ServerUnavailable:
            others = ", ".join(sorted(self._others))
            self.leave()
            raise GroupInUse(
                f"the group {self._options.group!r} has another member ({others}): two streaming "
                "queries, or a query and a consumer, would write their offsets over each other's. "
                "Give this query a group of its own, or leave the option group out, or set "
                'option("commitOffsets", "false"). (After a cut '
                "connection a broker lists the member for up to two minutes.)"
            ) from None
        self._thread.start()

    def is_only_member(self) -> bool:
        """Whether there was no other member at the last check."""
        return not self._others

    def leave(self) -> None:
        """Unregisters, if the brokers can be reached; else they see the connection close."""
        self._end[1].close()
        if self._thread.is_alive():
            self._thread.join()
        self._end[0].close()
        header = UnregisterClientRequest(client_id=self._id, consumer_group=self._options.group)
        for connection in self._brokers.all():
            try:
                connection.call(UNREGISTER_CLIENT, header)
            except SourceError as error:
                log.debug("not unregistered: %s", error)
        self._brokers.close()
        self._name_servers.close()

    def _run_heartbeats(self) -> None:
        while self._listen(time.monotonic() + HEARTBEAT_S):
            before = self._others
            try:
                self._read_members()
            except SourceError as error:
                log.warning("the members of %s were not read: %s", self._options.group, error)
            if self._others - before:
                log.warning(
                    "the group %s has other members now (%s): nothing is committed while they "
                    "are there",
                    self._options.group,
                    ", ".join(sorted(self._others)),
                )

    def _listen(self, until_s: float) -> bool:
        """Answers requests of brokers until the next heartbeat; False when the thread must end."""
        while (left_s := until_s - time.monotonic()) > 0:
            sources: list[socket.socket | BlockingConnection]
            sources = [self._end[0], *self._brokers.all()]
            for connection in select.select(sources, [], [], left_s)[0]:
                if isinstance(connection, socket.socket):
                    return False
                try:
                    connection.receive()
                except SourceError:
                    self._brokers.drop(connection.address)
        return True

    def _check_only_member(self) -> None:
        """Raises ``ServerUnavailable``, which is retried, while there are other members.

        The stream does not register until then: the other members would give it queues.
        """
        self._read_members()
        if not self._others and not self._is_registered:
            self._is_registered = True
            self._read_members()  # two streams that joined at once see each other now
        if self._others:
            raise ServerUnavailable("the group has other members")

    def _read_members(self) -> None:
        """Sends a heartbeat to each broker and reads the members.  Raises ``SourceError``.

        An unavailable broker is asked again at the next heartbeat.
        """
        found: set[str] = set()
        try:
            addresses = self._name_servers.queues(self._options.topics).addresses
        except (ServerUnavailable, TopicUnknown) as error:
            log.debug("no broker to ask for the group: %s", error)
            return
        for address in addresses.values():
            try:
                found |= self._brokers.asked(address, self._members_at)
            except ServerUnavailable as error:
                log.debug("the members were not read: %s", error)
        self._others = frozenset(found - {self._id})

    def _members_at(self, connection: BlockingConnection) -> set[str]:
        if self._is_registered:
            connection.call(HEART_BEAT, body=self._heartbeat())
        header = GetConsumerListByGroupRequest(consumer_group=self._options.group)
        try:
            reply = connection.call(GET_CONSUMER_LIST_BY_GROUP, header)
        except ServerRefused as refused:
            if refused.code != ResponseCode.SYSTEM_ERROR:
                raise
            return set()  # brokers refuse to list a group without members
        listed = decode_unlimited_body(reply.body, GetConsumerListByGroupReply).consumer_id_list
        return {member for member in listed if member}

    def _heartbeat(self) -> bytes:
        options = self._options
        member = ConsumerData(
            group_name=options.group,
            consume_type="CONSUME_ACTIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=[options.subscription(topic) for topic in options.topics],
        )
        data = HeartbeatData(client_id=self._id, consumer_data_set=[member])
        return encode_body(data, R_4_9_7)
