"""Planted bugs in the client's consumers: from the lock of a queue to the offset it commits.

Each is a plausible mistake in one function of a client, with which the program still runs.  They
were chosen by what RocketMQ promises, not by what a checker checks.
"""

from __future__ import annotations

from tools.power.bug import Bug

CONSUMER = "emulator/client/consumer"

LOCKS = (
    Bug(
        name="renewal_does_not_move_the_lock_time",
        part="locks",
        upstream="RebalanceImpl.lockAll",
        does="a renewed lock keeps the time at which its queue was claimed",
        breaks="a lock that is renewed every 20 s is valid, and the queue's messages are consumed",
        file="emulator/client/consumer/push/consume_orderly.py",
        function="QueueLocks._mark",
        old="                process_queue.locked = locked\n"
        "                if locked:\n"
        "                    process_queue.last_lock_ms = now_ms\n",
        new="                if process_queue.locked != locked:\n"
        "                    process_queue.last_lock_ms = now_ms\n"
        "                process_queue.locked = locked\n",
        invariants=("client 51",),
    ),
    Bug(
        name="unlock_skips_dropped_queues",
        part="locks",
        upstream="RebalanceImpl.unlock",
        does="only a queue that is held and not dropped is unlocked, "
        "but a released queue is already dropped",
        breaks="a released queue is unlocked, so that its next owner does not wait "
        "until the broker's lock expires after 60 s",
        file="emulator/client/consumer/push/consume_orderly.py",
        function="QueueLocks.unlock_soon",
        old="        self._member.calls.unlock_soon(queue)",
        new="        held = self._member.process_queue_table.get(queue)\n"
        "        if held is not None and not held.dropped:\n"
        "            self._member.calls.unlock_soon(queue)",
        invariants=("client 52",),
    ),
    Bug(
        name="busy_queue_is_given_away_by_force",
        part="locks",
        upstream="RebalancePushImpl.tryRemoveOrderMessageQueue",
        does="a dropped queue is unlocked at once, although its listener still runs",
        breaks="an orderly queue goes to its next owner after the listener has returned; "
        "by force only 20 s after the last lock",
        file="emulator/client/consumer/push/consume_orderly.py",
        function="LockedOwnership._release_after_listener_or_forced",
        old="process_queue.dropped and silent_ms >",
        new="process_queue.dropped or silent_ms >",
        invariants=("client 51", "client 52"),
        release="5.3.3",
    ),
)

PULL = (
    Bug(
        name="failed_pull_is_not_repeated",
        part="pull",
        upstream="DefaultMQPushConsumerImpl.pullMessage",
        does="a failed pull is noted, and its pull request is lost",
        breaks="a failed pull is repeated one second later",
        file="emulator/client/consumer/push/pulling.py",
        function="Pulling._failed",
        old="        self._note_failed(request, error)\n"
        "        self._pull_again(request, self._member.config.pull_error_delay_ms)",
        new="        self._note_failed(request, error)",
        invariants=("client 39",),
    ),
    Bug(
        name="next_pull_begins_at_max_offset",
        part="pull",
        upstream="DefaultMQPushConsumerImpl.pullMessage",
        does="the next pull begins at the end of the queue, not after the pulled messages",
        breaks="a backlog that needs more than one pull is consumed completely",
        file="emulator/client/consumer/push/pulling.py",
        function="Pulling._found",
        old="request.next_offset = header.next_begin_offset",
        new="request.next_offset = header.max_offset",
        invariants=("client 61",),
    ),
    Bug(
        name="first_pull_is_submitted_twice",
        part="pull",
        upstream="RebalancePushImpl.dispatchPullRequest",
        does="a new queue is pulled at once and again half a second later: "
        "the queue has two pull requests",
        breaks="a queue has one outstanding pull, and a listener gets each message once",
        file="emulator/client/consumer/group/rebalance.py",
        function="PullRequestDispatcher.dispatch",
        old="            else:\n                service.pull_now(request)",
        new="            service.pull_now(request)",
        invariants=("client 37", "client 38"),
        release="5.3.3",
    ),
)

PROCESS_QUEUE = (
    Bug(
        name="commits_highest_finished_offset",
        part="process queue",
        upstream="ProcessQueue.removeMessage",
        does="the highest offset that was just finished is committed, "
        "even if messages before it are unfinished",
        breaks="the committed offset is the smallest unfinished one",
        file="emulator/client/consumer/group/process_queue.py",
        function="ProcessQueue.remove",
        old="return order[0]",
        new="return max((each.queue_offset + 1 for each in messages), default=order[0])",
        invariants=("client 43", "client 54"),
    ),
    Bug(
        name="commits_one_short_of_the_end",
        part="process queue",
        upstream="ProcessQueue.removeMessage",
        does="when all messages are finished the offset of the last one is committed, "
        "not the next offset",
        breaks="a committed offset is the next one to consume: acknowledged and committed "
        "messages are not delivered again",
        file="emulator/client/consumer/group/process_queue.py",
        function="ProcessQueue.remove",
        old="return self.offset_highest + 1",
        new="return self.offset_highest",
        invariants=("client 43", "client 55"),
    ),
    Bug(
        name="suspended_message_goes_to_the_end",
        part="process queue",
        upstream="ProcessQueue.makeMessageToConsumeAgain",
        does="a message that an orderly listener suspended is put back after those "
        "that were pulled later",
        breaks="no later message of an orderly queue is consumed before the failed message",
        file="emulator/client/consumer/group/process_queue.py",
        function="ProcessQueue._insert",
        old="order.appendleft(offset)",
        new="order.append(offset)",
        invariants=("client 50",),
    ),
)

OFFSETS = (
    Bug(
        name="released_queue_is_forgotten_before_it_is_persisted",
        part="offsets",
        upstream="RebalancePushImpl.removeUnnecessaryMessageQueue",
        does="the offset of a released queue is removed from memory before it is stored, "
        "so that nothing is stored",
        breaks="the offset of a released queue is stored: its next owner begins there",
        file="emulator/client/consumer/group/rebalance.py",
        function="Rebalance._release",
        old="        self._member.offsets.persist(queue)\n"
        "        self._member.offsets.forget(queue)",
        new="        self._member.offsets.forget(queue)\n"
        "        self._member.offsets.persist(queue)",
    ),
    Bug(
        name="offset_in_memory_is_never_raised",
        part="offsets",
        upstream="RemoteBrokerOffsetStore.updateOffset",
        does="an acknowledgement changes the offset in memory only if it is lower",
        breaks="the offset of consumed messages is committed within 5 s, so that they are not "
        "delivered again after a change of owner",
        file="emulator/client/consumer/group/offsets.py",
        function="OffsetTable.raise_to",
        old="offset > known",
        new="offset < known",
        invariants=("client 54",),
    ),
    Bug(
        name="stored_offset_zero_counts_as_none",
        part="offsets",
        upstream="RebalancePushImpl.computePullFromWhereWithException",
        does="a stored offset of 0 is treated as none, and the queue is consumed from its end",
        breaks="a stored offset is used instead of the policy for new groups: "
        "with offset 0 a queue is consumed from its first message",
        file="emulator/client/consumer/group/offsets.py",
        function="StartOffsets.find",
        old="        return await self._searched(queue) if stored is None else stored\n",
        new="        return stored or await self._searched(queue)\n",
        invariants=("client 44",),
    ),
)

RETRIES = (
    Bug(
        name="every_retry_has_the_first_delay_level",
        part="retries",
        upstream="ConsumeMessageConcurrentlyService.sendMessageBack",
        does="level 0, with which the broker chooses the delay, is sent as level 1",
        breaks="the k-th retry comes after the delay of level k + 2: after 10 s, 30 s, 1 m …",
        file="emulator/client/consumer/push/consume_concurrently.py",
        function="ConsumeConcurrently._send_failed_back",
        old="self._send_back.send_back(message, batch.queue, delay_level)",
        new="self._send_back.send_back(message, batch.queue, delay_level or 1)",
        invariants=("client 46",),
    ),
    Bug(
        name="failed_send_back_counts_as_done",
        part="retries",
        upstream="DefaultMQPushConsumerImpl.sendMessageBack",
        does="a message that could not be sent back is treated as sent back",
        breaks="a failed message is delivered again, and the offset does not pass it "
        "until its copy is stored",
        file="emulator/client/consumer/push/send_back.py",
        function="SendBack.send_back_or_raise",
        old="            level = FIRST_RETRY_LEVEL + message.reconsume_times\n"
        "            await self._publish(message, level, message.reconsume_times + 1)\n",
        new="            return\n",
        invariants=("client 47", "client 61"),
    ),
    Bug(
        name="unset_retry_limit_is_sent_as_minus_one",
        part="retries",
        upstream="DefaultMQPushConsumerImpl.getMaxReconsumeTimes",
        does="maxReconsumeTimes is sent to the broker as it is configured, even if it is -1",
        breaks="a message becomes a dead letter after 16 retries, not before",
        file="emulator/client/settings/config.py",
        function="PushConsumerConfig.retries_max",
        old="        if self.reconsume_times_max != -1:\n",
        new="        if self.reconsume_times_max is not None:\n",
        invariants=("client 46",),
    ),
    Bug(
        name="orderly_failures_are_not_counted",
        part="retries",
        upstream="ConsumeMessageOrderlyService.checkReconsumeTimes",
        does="the retries of a message that an orderly listener suspended are not counted",
        breaks="an orderly message that failed maxReconsumeTimes times becomes a dead letter, "
        "and its queue continues",
        file="emulator/client/consumer/push/consume_orderly.py",
        function="ConsumeOrderly._must_suspend",
        old="                message.reconsume_times += 1\n",
        new="",
    ),
)

BROADCAST = (
    Bug(
        name="broadcast_members_share_queues",
        part="broadcast",
        upstream="RebalanceImpl.rebalanceByTopic",
        does="a broadcast group with several members divides the queues among them, "
        "like a clustering group",
        breaks="every member of a broadcast group consumes all queues",
        file="emulator/client/consumer/group/rebalance.py",
        function="Rebalance._topic",
        old="if self._member.is_broadcasting:",
        new="if self._member.is_broadcasting and not await self._member.calls.members(topic):",
        invariants=("client 34",),
    ),
    Bug(
        name="broadcast_file_is_written_without_held_queues",
        part="broadcast",
        upstream="LocalFileOffsetStore.persistAll",
        does="the file gets the offsets of queues that are not held, not those of held queues",
        breaks="a restarted broadcasting member continues at the offsets in its file",
        file="emulator/client/consumer/group/offsets.py",
        function="LocalFileOffsetStore.persist_all",
        old="for queue in self.table if queue in held}",
        new="for queue in self.table if queue not in held}",
        invariants=("client 57",),
    ),
)

LITE_PULL = (
    Bug(
        name="lite_pull_keeps_the_state_of_lost_queues",
        part="lite pull",
        upstream="AssignedMessageQueue.updateAssignedMessageQueue",
        does="a released queue is dropped but not removed: "
        "when it is claimed again its old, dropped process queue is used",
        breaks="a queue that a member claims again is pulled again",
        file="emulator/client/consumer/pull/pull_tasks.py",
        function="AssignedQueues.update",
        old="self._states.pop(queue).process_queue.dropped = True",
        new="self._states[queue].process_queue.dropped = True",
    ),
    Bug(
        name="lite_pull_commits_what_it_pulled",
        part="lite pull",
        upstream="DefaultLitePullConsumerImpl.commitAll",
        does="a commit stores the offset of the next pull, not the end of the polled messages",
        breaks="a lite pull consumer commits only messages that polls have returned",
        file="emulator/client/consumer/pull/pull_tasks.py",
        function="MessageQueueState.committable",
        old="else self.consume_offset",
        new="else self.pull_offset",
    ),
)

BUGS: tuple[Bug, ...] = (
    *LOCKS,
    *PULL,
    *PROCESS_QUEUE,
    *OFFSETS,
    *RETRIES,
    *BROADCAST,
    *LITE_PULL,
)
