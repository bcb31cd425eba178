"""Tables that grow large: topics one by one, groups in one heartbeat, locks in few requests.

Each measurement has its own NameServer and its own broker with a store.  Meanwhile a probe sends
small requests to the broker and records the slowest answer.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import trio

from rocketmq_emulator.admin.calls import Admin, ClusterUnreachable, NotFound, tool_client
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    ConsumerData,
    HeartbeatData,
    LockBatchReply,
    LockBatchRequestBody,
)
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.names import retry_topic
from rocketmq_emulator.protocol.messages.subscription import build_subscription
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.settings.releases import R_4_9_7
from tools.torture import Row
from tools.torture.waiting import ServerClock

NAME = "tables that grow large"
RELEASES = ("4.9.7", "5.3.3")
TOPICS, TOPICS_S_MAX = 10_000, 20.0
TURN_MS_MAX, FRAME_MS_MAX = 50, 100
GROUPS, GROUPS_S_MAX = 9_999, 20.0
LOCKS, LOCKS_A_REQUEST, LOCKS_S_MAX = 200_000, 50_000, 1.0
PROBE_PAUSE_S = 0.005
# The limits are for the broker alone: other programs can delay a disk, but not this folder.
MEMORY = Path("/dev/shm")  # noqa: S108  # a temporary folder is created in it
ANSWER_MS_MAX = 120_000


def run() -> list[Row]:
    """Topics and groups in both releases, locks in one."""
    rows: list[Row] = []
    for release in RELEASES:
        rows += _play(release, _topics_one_by_one)
        rows += _play(release, _groups_in_a_heartbeat)
    return rows + _play(RELEASES[0], _locks_by_requests)


class Environment:
    """A client of a running cluster, and a probe on its own connection."""

    def __init__(
        self, release: str, clock: ServerClock, namesrv: str, clients: list[RemotingClient]
    ) -> None:
        self.release = release
        self.clock = clock
        self.address = ""
        self.slowest_ms = 0.0
        self._client = clients[0]
        self.admin, self._prober = (Admin(namesrv, client) for client in clients)

    async def ask(self, rpc: AnyRpc, body: bytes) -> bytes:
        """The body of the broker's answer, which must be a success."""
        reply = await self.answer(rpc, body)
        if reply.code != 0:
            raise RuntimeError(f"the broker refused: {reply.code} {reply.remark}")
        return reply.body

    async def answer(self, rpc: AnyRpc, body: bytes) -> RemotingCommand:
        """The broker's answer, success or error."""
        return await self._client.invoke(self.address, rpc, None, body, timeout_ms=ANSWER_MS_MAX)

    async def wait_quiet(self) -> None:
        """Wait until this process's own work delays no probe; then reset ``slowest_ms``."""
        await trio.sleep(4 * PROBE_PAUSE_S)
        self.slowest_ms = 0.0

    async def probe(self) -> None:
        """Send small requests until cancelled, and record the slowest answer."""
        while True:
            began_s = self.clock.now_s()
            with suppress(ClusterUnreachable):  # no answer in time: counted as the slowest
                await self._prober.topic_stats_if_any(self.address, "SELF_TEST_TOPIC")
            self.slowest_ms = max(self.slowest_ms, self.clock.since_s(began_s) * 1_000)
            await trio.sleep(PROBE_PAUSE_S)

    async def wait_routed(self, topic: str) -> None:
        """Wait until the NameServer has a route to *topic*."""
        while True:
            try:
                await self.admin.route(topic)
            except NotFound:
                await trio.sleep(0.02)
            else:
                return


Measurement = Callable[[Environment], Awaitable[list[Row]]]


async def _topics_one_by_one(environment: Environment) -> list[Row]:
    began_s = environment.clock.now_s()
    names = [f"topic-{number:05}" for number in range(TOPICS)]
    for name in names:
        await environment.admin.create_topic(environment.address, TopicConfig(topic_name=name))
    took_s = environment.clock.since_s(began_s)
    for name in (names[0], names[-1]):
        await environment.wait_routed(name)
    what = f"{TOPICS:,} topics created one by one, {environment.release}"
    found = f"{took_s:.1f} s"
    slowest = f"{environment.slowest_ms:.0f} ms"
    reached = environment.slowest_ms <= TURN_MS_MAX
    return [
        Row(what, f"at most {TOPICS_S_MAX:.0f} s", found, took_s <= TOPICS_S_MAX),
        Row(
            f"the slowest answer meanwhile, {environment.release}",
            f"{TURN_MS_MAX} ms",
            slowest,
            reached,
        ),
    ]


async def _groups_in_a_heartbeat(environment: Environment) -> list[Row]:
    subscriptions = [build_subscription("orders", "*")]
    names = [f"group-{number:04}" for number in range(GROUPS)]
    groups = [
        ConsumerData(
            group_name=name,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=subscriptions,
        )
        for name in names
    ]
    beat = HeartbeatData(client_id="client", consumer_data_set=groups)
    body = encode_body(beat, R_4_9_7)
    await environment.wait_quiet()
    began_s = environment.clock.now_s()
    await environment.ask(catalog.HEART_BEAT, body)
    took_s = environment.clock.since_s(began_s)
    for name in (names[0], names[-1]):
        await environment.wait_routed(retry_topic(name))
    routed_s = environment.clock.since_s(began_s)
    what = f"a heartbeat that brings {GROUPS:,} groups, {environment.release}"
    found = f"answered after {took_s:.1f} s, retry topics in the route after {routed_s:.1f} s"
    slowest = f"{environment.slowest_ms:.0f} ms"
    return [
        Row(what, f"at most {GROUPS_S_MAX:.0f} s", found, routed_s <= GROUPS_S_MAX),
        Row(
            f"the slowest answer meanwhile, {environment.release}",
            f"{FRAME_MS_MAX} ms",
            slowest,
            environment.slowest_ms <= FRAME_MS_MAX,
        ),
    ]


async def _locks_by_requests(environment: Environment) -> list[Row]:
    """Lock all queues with few requests, each of fewer queues than ``body_objects_max``."""
    took_s: list[float] = []
    starts = range(0, LOCKS, LOCKS_A_REQUEST)
    bodies = [_locks("orders", range(first, first + LOCKS_A_REQUEST)) for first in starts]
    await environment.wait_quiet()
    answers = []
    for body in bodies:
        began_s = environment.clock.now_s()
        answers.append(await environment.ask(catalog.LOCK_BATCH_MQ, body))
        took_s.append(environment.clock.since_s(began_s))
    slowest_ms = environment.slowest_ms
    granted = sum(len(decode_body(answer, LockBatchReply).lock_ok_mq_set) for answer in answers)
    found = f"{granted:,} granted; each request {min(took_s):.2f} to {max(took_s):.2f} s"
    what = f"LOCK_BATCH_MQ of {LOCKS:,} queues, {LOCKS_A_REQUEST:,} a request"
    reached = granted == LOCKS and max(took_s) <= LOCKS_S_MAX
    aim = f"{FRAME_MS_MAX} ms"
    return [
        Row(what, f"at most {LOCKS_S_MAX:.0f} s a request", found, reached),
        Row(
            "the slowest answer meanwhile", aim, f"{slowest_ms:.0f} ms", slowest_ms <= FRAME_MS_MAX
        ),
        await _locks_in_one(environment),
    ]


def _locks(topic: str, numbers: range) -> bytes:
    queues = [MessageQueue(topic, "broker-a", number) for number in numbers]
    request = LockBatchRequestBody(consumer_group="group", client_id="client", mq_set=queues)
    return encode_body(request, R_4_9_7)


async def _locks_in_one(environment: Environment) -> Row:
    """A request of more queues than ``body_objects_max`` is refused, with the limit's name."""
    body = _locks("others", range(LOCKS))
    await environment.wait_quiet()
    reply = await environment.answer(catalog.LOCK_BATCH_MQ, body)
    remark = reply.remark or ""
    is_refused = reply.code != 0 and "body_objects_max" in remark
    return Row(
        f"LOCK_BATCH_MQ of {LOCKS:,} queues in one request",
        f"refused with the name of the limit; others wait {FRAME_MS_MAX} ms at most",
        f"code {reply.code}: {remark}; {environment.slowest_ms:.0f} ms",
        is_refused and environment.slowest_ms <= FRAME_MS_MAX,
    )


def _play(release: str, measurement: Measurement) -> list[Row]:
    async def main(namesrv: str, broker_pid: int) -> list[Row]:
        async with cancelling_nursery() as nursery:
            clients = [tool_client(nursery) for _ in range(2)]
            environment = Environment(release, ServerClock(broker_pid), namesrv, clients)
            (environment.address,) = (await environment.admin.masters()).values()
            async with trio.open_nursery() as probing:
                probing.start_soon(environment.probe)
                rows = await measurement(environment)
                probing.cancel_scope.cancel()
            for client in clients:
                client.end()
            nursery.cancel_scope.cancel()
        return rows

    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as store:
        spec = ClusterSpec(brokers=1, release=release, store=store)
        with ProcessCluster(spec) as cluster:
            return trio.run(functools.partial(main, cluster.namesrv, cluster.pids["broker-a"]))
