"""Planted bugs in the client: from the send of a message to the allocation of queues.

They are in sends and the choice of a queue, routes, the fault table, heartbeats, and the way in
which members of a group share queues.  Each is a plausible mistake in a client; none was chosen by
what a checker checks.
"""

from __future__ import annotations

from tools.power.bug import Bug

_PRODUCER = "emulator/client/producer"
_INSTANCE = "emulator/client/instance"
_CONSUMER = "emulator/client/consumer"

_SEND = (
    Bug(
        name="last_broker_is_read_once",
        part="send",
        upstream="DefaultMQProducerImpl.sendDefaultImpl",
        does="reads the broker of the last attempt once, before the first attempt",
        breaks="a synchronous retry does not go to the broker that has just failed",
        file="emulator/client/producer/send_attempts.py",
        function="SyncSend._try_brokers",
        old="""\
        while not attempts.is_over:
            last = attempts.last_broker
""",
        new="""\
        last = attempts.last_broker
        while not attempts.is_over:
""",
        invariants=("client 13",),
    ),
    Bug(
        name="each_attempt_has_the_whole_timeout",
        part="send",
        upstream="DefaultMQProducerImpl.sendDefaultImpl",
        does="gives every attempt the timeout of the call, not the time that is left",
        breaks="a synchronous send ends within its timeout, 3 s, and a hung broker uses all of it",
        file="emulator/client/producer/send_attempts.py",
        function="Attempts.time_left_ms",
        old="left_ms = self._timeout_ms - (now_ms - self._began_ms)",
        new="left_ms = self._timeout_ms",
        invariants=("client 15",),
    ),
    Bug(
        name="selected_send_is_retried_elsewhere",
        part="send",
        upstream="DefaultMQProducerImpl.sendSelectImpl",
        does="retries a send with a selector like any other send, at a queue of the next broker",
        breaks="a send with a selector has one attempt: messages of one key stay in one queue",
        file="emulator/client/producer/send_attempts.py",
        function="SyncSend.send_to",
        old="""\
        attempts = self._attempts(1)

        async def once() -> None:
            await self._attempt(attempts, await choose())
""",
        new="""\
        attempts = self._attempts(1 + self._kernel.config.sync_retries)

        async def once() -> None:
            await self._attempt(attempts, await choose())
            await self._try_brokers(attempts, 0)
""",
        invariants=("client 13",),
    ),
    Bug(
        name="last_failure_of_an_async_send_is_swallowed",
        part="send",
        upstream="MQClientAPIImpl.onExceptionImpl",
        does="returns without calling the callback when the retries or the time are used up",
        breaks="an asynchronous send ends exactly once, with a result or an error",
        file="emulator/client/producer/send_attempts.py",
        function="AsyncSend._try_again",
        old="""\
            self._end_attempt(error)
            return
""",
        new="""\
            self._note_attempt(error)
            return
""",
        invariants=("client 16",),
    ),
)

_ROUTES = (
    Bug(
        name="routes_compared_by_broker_names",
        part="routes",
        upstream="MQClientInstance.topicRouteDataIsChange",
        does="compares the names of the brokers in QueueData, not permissions and queue counts",
        breaks="a route with other permissions or queue counts is used from the next poll on",
        file="emulator/client/instance/topic_routes.py",
        function="_normal",
        old="queues = sorted(route.queue_datas, key=lambda data: java_order(data.broker_name))",
        new="queues = sorted(data.broker_name for data in route.queue_datas)",
    ),
    Bug(
        name="read_only_queues_are_not_subscribed",
        part="routes",
        upstream="MQClientInstance.topicRouteData2TopicSubscribeInfo",
        does="checks the write permission, not the read permission, of the queues to consume",
        breaks="a readable queue is consumed, even while it is not writable",
        file="emulator/client/instance/topic_routes.py",
        function="subscribe_queues",
        old="if is_readable(data.perm)",
        new="if is_writeable(data.perm)",
        invariants=("client 9",),
    ),
    Bug(
        name="poll_ends_after_the_first_route",
        part="routes",
        upstream="MQClientInstance.updateTopicRouteInfoFromNameServer",
        does="ends a poll after the first topic whose route was received",
        breaks="each poll refreshes the routes of all topics, also of the retry topic",
        file=f"{_INSTANCE}/topic_routes.py",
        function="TopicRoutes.poll",
        old="if not await self.refresh_quietly(topic):",
        new="if await self.refresh_quietly(topic):",
        invariants=("client 1",),
    ),
)

_FAULTS_TABLE = (
    Bug(
        name="failure_is_rated_by_its_latency",
        part="faults table",
        upstream="MQFaultStrategy.updateFaultItem",
        does="rates a failed attempt by its own latency, not by the latency set for failures",
        breaks="a broker that fails at once is isolated like a slow one: 600 s, since 5.1.4 10 s",
        file=f"{_PRODUCER}/fault_strategy.py",
        function="MQFaultStrategy.update",
        old="duration_ms = self._table.duration_ms("
        "self._table.isolation_ms if isolate else latency_ms)",
        new="duration_ms = self._table.duration_ms(latency_ms)",
        invariants=("client 18", "client 19"),
    ),
    Bug(
        name="penalty_is_that_of_the_row_below",
        part="faults table",
        upstream="MQFaultStrategy.computeNotAvailableDuration",
        does="takes the duration of the next lower latency in the table",
        breaks="each latency has its duration: 30 s (2 s) for 550 ms, 600 s (10 s) for failures",
        file="emulator/client/producer/fault_strategy.py",
        function="FaultTable.duration_ms",
        old="rows = zip(self.latency_ms_min, self.not_available_ms, strict=True)",
        new="rows = zip(self.latency_ms_min[1:], self.not_available_ms, strict=False)",
        invariants=("client 18", "client 19"),
    ),
    Bug(
        name="isolations_add_up",
        part="faults table",
        upstream="LatencyFaultToleranceImpl.FaultItem.updateNotAvailableDuration",
        does="adds a new isolation to the end of the present one, instead of counting from now",
        breaks="an isolation lasts for its duration after the last bad attempt, not longer",
        file="emulator/client/producer/fault_strategy.py",
        function="LatencyFaultTolerance.update",
        old="item.available_from_ms = max(item.available_from_ms, until_ms)",
        new="item.available_from_ms = max(item.available_from_ms, now_ms) + duration_ms",
        invariants=("client 19",),
        release="5.3.3",
    ),
)

_HEARTBEATS = (
    Bug(
        name="failed_heartbeat_keeps_the_lock",
        part="heartbeats",
        upstream="MQClientInstance.sendHeartbeatToAllBrokerWithLock",
        does="ends a round at the first broker that fails, without a reset of the round's flag",
        breaks="heartbeats are sent every 30 s, also to brokers that were restarted",
        file="emulator/client/instance/instance.py",
        function="Heartbeats.send_round",
        old="""\
                await self._send(address, body)
        finally:
            self._is_sending = False
""",
        new="""\
                if not await self._send(address, body):
                    return False
            self._is_sending = False
        except BaseException:
            self._is_sending = False
            raise
""",
        invariants=("client 1", "client 3"),
    ),
    Bug(
        name="no_heartbeat_after_a_rebalance",
        part="heartbeats",
        upstream="RebalancePushImpl.messageQueueChanged",
        does="raises the version of the subscription, and sends it only with a periodic heartbeat",
        breaks="brokers get a new version at once, so that they do not refuse pulls with it",
        file="emulator/client/consumer/push/consume_pipeline.py",
        function="ConsumePipeline._queues_changed",
        old="        await member.instance.heartbeats.send_round()\n",
        new="",
        invariants=("client 45",),
    ),
)

_REBALANCE = (
    Bug(
        name="members_are_not_sorted",
        part="rebalance",
        upstream="RebalanceImpl.rebalanceByTopic",
        does="allocates in the order in which the queried broker lists the members",
        breaks="all members use the same order, whichever broker each of them queries",
        file="emulator/client/consumer/group/rebalance.py",
        function="Rebalance._allocated",
        old="members = tuple(sorted(ids, key=java_order))",
        new="members = tuple(ids)",
        invariants=("client 27", "client 31"),
    ),
    Bug(
        name="unanswered_members_drop_the_queues",
        part="rebalance",
        upstream="RebalanceImpl.rebalanceByTopic",
        does="treats a failed query for the members as a group without members",
        breaks="a member keeps its queues when the query for the members fails",
        file="emulator/client/consumer/group/rebalance.py",
        function="Rebalance._allocated",
        old="""\
        if queues is None or not ids:
            return None
""",
        new="""\
        if queues is None:
            return None
        if not ids:
            return []
""",
        invariants=("client 32",),
    ),
    Bug(
        name="wake_up_during_a_pass_is_lost",
        part="rebalance",
        upstream="RebalanceService.run",
        does="resets the wake-up after the pass, also if it came during the pass",
        breaks="a notice that comes during a pass causes another pass at once, not after 20 s",
        file="emulator/client/instance/services.py",
        function="RebalanceService.run",
        old="            balanced = await self._run_pass()\n",
        new="""\
            balanced = await self._run_pass()
            self._is_woken = False
""",
        invariants=("client 35",),
    ),
)

_ALLOCATION = (
    Bug(
        name="remainder_has_no_owner",
        part="allocation",
        upstream="AllocateMessageQueueAveragely.allocate",
        does="allocates equal shares, but never the remainder of the division",
        breaks="the shares of all members together contain all queues",
        file="protocol/allocation.py",
        function="averagely",
        old="queues[start : start + share + (index < extra)]",
        new="queues[start : start + share]",
        invariants=("client 27", "client 28"),
    ),
    Bug(
        name="surplus_member_gets_a_queue_too",
        part="allocation",
        upstream="AllocateMessageQueueAveragely.allocate",
        does="allocates the first queues again to members beyond the number of queues",
        breaks="no queue has two owners; with fewer queues than members, some members have none",
        file="protocol/allocation.py",
        function="averagely",
        old="index = members.index(me)",
        new="index = members.index(me) % len(queues)",
        invariants=("client 27", "client 28"),
    ),
    Bug(
        name="shares_are_rounded_up",
        part="allocation",
        upstream="AllocateMessageQueueAveragely.allocate",
        does="gives each member the quotient rounded up, until no queue is left",
        breaks="shares differ by one at most: no member is idle while another has two queues",
        file="protocol/allocation.py",
        function="averagely",
        old="""\
    start = index * share + min(index, extra)
    return list(queues[start : start + share + (index < extra)])
""",
        new="""\
    share += extra > 0
    return list(queues[index * share : (index + 1) * share])
""",
        invariants=("client 28",),
    ),
)

BUGS: tuple[Bug, ...] = (*_SEND, *_ROUTES, *_FAULTS_TABLE, *_HEARTBEATS, *_REBALANCE, *_ALLOCATION)
