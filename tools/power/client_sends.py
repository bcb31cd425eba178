"""Planted bugs, part A: the client up to its queues.

Sends and the choice of a queue, routes, the fault table, heartbeats, and how the members of a
group share queues.  Each is a mistake that the author of a client could make; none was chosen by
what a checker looks at.
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
        does="reads the broker of the last attempt before the loop, when there was none yet",
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
        does="gives every attempt the timeout of the call, not what is left of it",
        breaks="a synchronous send ends within its timeout, 3 s, and a hung broker uses it up",
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
        does="retries a send with a selector as any other one, at a queue of the next broker",
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
        does="looks for the permission to write when it lists the queues to consume",
        breaks="a queue that may be read is consumed, also while nothing may be written to it",
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
        does="ends the round of polls after the first topic that was answered",
        breaks="each poll refreshes the routes of all topics, the retry topic's included",
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
        does="looks up the latency of a failed attempt instead of that which stands for failures",
        breaks="a broker that fails at once is avoided (600 s, since 5.1.4 10 s) as a slow one is",
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
        does="takes the duration from one row further down than the latency's",
        breaks="each latency has its penalty: 550 ms count 30 s (2 s), failures 600 s (10 s)",
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
        does="counts a new isolation from the end of the one that holds, not from now",
        breaks="an isolation ends its duration after the last bad attempt, whatever came before",
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
        does="leaves a round at the first broker that fails, without resetting the round's flag",
        breaks="heartbeats go out every 30 s and reach each broker that has come back",
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
        does="raises the version of the subscription and leaves it to the next periodic heartbeat",
        breaks="brokers learn a new version at once, so that they do not refuse the pulls with it",
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
        does="allocates by the order in which the broker that was asked lists the members",
        breaks="all members compute with one order, whichever broker each of them asks",
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
        does="takes a query for the members that failed for a group without members",
        breaks="the queues stay as they are when the list of members cannot be had",
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
        does="resets the wake-up after the pass, with those that came while it ran",
        breaks="a notice that comes during a pass causes another one, not the timer 20 s later",
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
        does="cuts equal runs and never deals the remainder of the division",
        breaks="the members' shares together are all queues",
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
        does="begins again with the first queues for members beyond the number of queues",
        breaks="no queue has two owners; with fewer queues than members some have none",
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
        breaks="shares differ by one at most: nobody is idle while another member has two queues",
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
