"""Planted bugs in brokers and NameServers.

Each is one mistake in one function: a missing step, a stale state, a number that is wrong by one,
a wrong unit or constant.  The server starts and answers, but does not do what RocketMQ promises.
They were chosen by these promises alone, without regard to the rules that should find them.
"""

from __future__ import annotations

from tools.power.bug import Bug

ROUTES = "emulator/nameserver/state/routes.py"
NAME_SERVER_TABLES = "emulator/nameserver/state/tables.py"
REGISTRATION = "emulator/broker/registration.py"
BELLS = "emulator/net/held_calls.py"
SENDING = "emulator/broker/handlers/sending.py"
SEND_BACK = "emulator/broker/handlers/send_back.py"
PULLING = "emulator/broker/handlers/pulling.py"
APPENDER = "emulator/broker/store/appender.py"
PUT_CHAIN = "emulator/broker/store/put_chain.py"
CONSUME_QUEUE = "emulator/broker/store/consume_queue.py"
DELAYS = "emulator/broker/store/delays.py"
TIMERS = "emulator/broker/store/timer_messages.py"
RECOVERY = "emulator/broker/store/commit_log.py"
CHANNELS = "emulator/broker/tables/client_channels.py"
NOTICES = "emulator/broker/tables/client_channels.py"
LOCKS = "emulator/broker/tables/locks.py"
OFFSETS = "emulator/broker/tables/offsets.py"

_NAME_SERVERS = (
    Bug(
        name="register_every_five_minutes",
        part="registration",
        upstream="BrokerController.start",
        does="the interval of registrations is ten times too long: 300 s instead of 30 s",
        breaks="a NameServer that was restarted knows every live broker again after 30 s",
        file=REGISTRATION,
        function="NameServerRegistration._interval_ms",
        old="return min(max(config.register_interval_ms, INTERVAL_MS_MIN), INTERVAL_MS_MAX)",
        new="return min(max(config.register_interval_ms, INTERVAL_MS_MIN), INTERVAL_MS_MAX) * 10",
        invariants=("server 16",),
    ),
    Bug(
        name="known_topic_keeps_old_queues",
        part="registration",
        upstream="RouteInfoManager.registerBroker",
        does="a registration adds topics that are missing, but never changes a known one",
        breaks="the route of a topic shows its new queues and permissions",
        file=ROUTES,
        function="Routes._take_topics",
        old="if all_anew or (sees_missing and not self.topics.is_at(topic, given.broker)):",
        new="if first or not self.topics.is_at(topic, given.broker):",
        invariants=("server 2",),
    ),
    Bug(
        name="closed_channel_keeps_address",
        part="liveness of NameServer",
        upstream="RouteInfoManager.onChannelDestroy",
        does="a broker whose connection closed leaves the live table, but stays in the routes",
        breaks="a broker that died is in no route one second after its connection has closed",
        file=ROUTES,
        function="Routes.closed",
        old="self._remove_live(key, live)",
        new="self.live.remove(key)",
        invariants=("server 3",),
    ),
    Bug(
        name="broker_expires_after_12_s",
        part="liveness of NameServer",
        upstream="RouteInfoManager.scanNotActiveBroker",
        does="a broker expires 12 s after a registration, before the next one",
        breaks="a broker that registers every 30 s stays in the routes",
        file=NAME_SERVER_TABLES,
        function="LiveBrokers.silent",
        old="if live.last_update_ms + live.silence_ms_max < now_ms",
        new="if live.last_update_ms + live.silence_ms_max // 10 < now_ms",
        invariants=("server 4",),
    ),
)

_MEMBERS = (
    Bug(
        name="notify_newest_member_only",
        part="notification",
        upstream="DefaultConsumerIdsChangeListener.handle",
        does="a change of the members is sent only to the newest connection",
        breaks="every member of a group is notified at once when another one joins or leaves",
        file=NOTICES,
        function="MemberNotices._begin",
        old="notice.left.extend(self._members_of(group))",
        new="notice.left.extend(list(self._members_of(group))[-1:])",
        invariants=("server 57", "server 58"),
    ),
    Bug(
        name="member_list_keeps_who_left",
        part="notification",
        upstream="ConsumerGroupInfo.doChannelCloseEvent",
        does="the cached answer to GET_CONSUMER_LIST_BY_GROUP is kept when a member leaves",
        breaks="a member that left is no longer listed: its queues go to the remaining members",
        file=CHANNELS,
        function="ClientChannels._remove_member",
        old="            group.encoded_client_ids = None\n            self.member_count -= 1",
        new="            self.member_count -= 1",
        invariants=("server 58",),
    ),
)

_STORE = (
    Bug(
        name="acknowledge_and_not_store",
        part="store",
        upstream="SendMessageProcessor.asyncSendMessage",
        does="every twentieth send is answered with an offset, but not stored",
        breaks="a message that was acknowledged is stored",
        file=SENDING,
        function="SendMessageProcessor._store",
        old="put = broker.puts.put(message, call.now_ms)",
        new="""store, self._sends = broker.store, getattr(self, "_sends", 0) + 1
        put = PutResult(store.log.end_position, 0, store.max_offset(message.topic, queue_id))
        if self._sends % 20:
            put = broker.puts.put(message, call.now_ms)""",
        invariants=("server 28",),
    ),
    Bug(
        name="store_twice",
        part="store",
        upstream="DefaultMessageStore.asyncPutMessage",
        does="every eighth message of a queue is stored twice; the answer has the second offset",
        breaks="a message that was sent once is stored once",
        file=PUT_CHAIN,
        function="PutChain.put",
        old="put = self._store.put(message, now_ms)",
        new="""put = self._store.put(message, now_ms)
        if put.queue_offset % 8 == 7:
            put = self._store.put(message, now_ms)""",
    ),
    Bug(
        name="same_offset_in_one_millisecond",
        part="store",
        upstream="CommitLog.asyncPutMessage",
        does="a put gets the offset of the previous put if both are in the same millisecond",
        breaks="no two messages of a queue have the same offset",
        file=APPENDER,
        function="Appender.append",
        old="""store_ms = self._tick(now_ms)
        log, offset = self._log, queue.max_offset""",
        new="""raced = now_ms == self._last_ms and len(queue.positions) > 0
        store_ms = self._tick(now_ms)
        log, offset = self._log, queue.max_offset - raced""",
        invariants=("server 28",),
    ),
    Bug(
        name="recovery_drops_last_record",
        part="recovery",
        upstream="CommitLog.recoverAbnormally",
        does="the last record of the log is always treated as incomplete",
        breaks="a restart keeps every acknowledged message that was flushed",
        file=RECOVERY,
        function="_scan_segment",
        old='(properties[-1:] == b"\\0" and _is_last(view, end))',
        new="_is_last(view, end)",
        invariants=("server 28",),
    ),
    Bug(
        name="delay_progress_of_next_level",
        part="recovery",
        upstream="ScheduleMessageService.correctDelayOffset",
        does="the saved progress of a level is limited to the end of the next level's queue",
        breaks="a restart does not deliver messages again that were delivered long before it",
        file=DELAYS,
        function="ScheduleMessageService._within_the_log",
        old="min(offset, self._store.max_offset(SCHEDULE_TOPIC, queue_of_level(level)))",
        new="min(offset, self._store.max_offset(SCHEDULE_TOPIC, queue_of_level(level + 1)))",
    ),
)

_DELAYS = (
    Bug(
        name="drop_delayed_messages",
        part="delays",
        upstream="ScheduleMessageService.DeliverDelayedMessageTimerTask.executeOnTimeup",
        does="a due message is checked, and its level continues, but the message is not stored",
        breaks="a delayed message is delivered when its time has come",
        file=DELAYS,
        function="ScheduleMessageService._deliver",
        old="""put = self._store.put(again, now_ms)
                self._store.early_deliveries.give(put.position, early_ms)""",
        new="self._store.check(again)",
        invariants=("server 34",),
    ),
    Bug(
        name="delay_of_level_before",
        part="delays",
        upstream="ScheduleMessageService.computeDeliverTimestamp",
        does="levels are counted from 0: each waits as long as the level before it",
        breaks="a message of level 3 is not delivered before 10 s have passed",
        file=CONSUME_QUEUE,
        function="index_code",
        old="return levels.deliver_ms(level, store_ms)",
        new="return levels.deliver_ms(level - 1, store_ms)",
        invariants=("server 34", "server 36"),
    ),
    Bug(
        name="timers_forgotten_at_restart",
        part="delays",
        upstream="TimerMessageStore.recover",
        does="a start reads the timer topic only from the saved offset, without waiting messages",
        breaks="a timer message that waits when its broker restarts is delivered",
        file=TIMERS,
        function="TimerMessageStore.recover_waiting",
        old="first, end = self._next_offset, queue.max_offset",
        new="""first = self._next_offset = self._saved.queue_offset
        end = queue.max_offset""",
        invariants=("server 44",),
        release="5.3.3",
    ),
    Bug(
        name="client_retry_limit_ignored",
        part="retries",
        upstream="SendMessageProcessor.asyncConsumerSendMsgBack",
        does="maxReconsumeTimes of the request is not read: the group's limit of 16 is used",
        breaks="a message that failed maxReconsumeTimes times becomes a dead letter",
        file=SEND_BACK,
        function="SendMessageBackProcessor.send_back",
        old="retries_max = client_retries_max(call.command.version, request.max_reconsume_times)",
        new="retries_max = None",
        invariants=("server 37",),
    ),
    Bug(
        name="retry_beyond_last_queue",
        part="retries",
        upstream="SendMessageProcessor.asyncConsumerSendMsgBack",
        does="the random queue of a retry may be one too high: half of the retries have no queue",
        breaks="a message that was sent back is delivered again",
        file=SEND_BACK,
        function="SendMessageBackProcessor._retry_queue",
        old="self._rng.randrange(queues)",
        new="self._rng.randint(0, queues)",
        invariants=("server 36",),
    ),
)

_CONSUMING = (
    Bug(
        name="first_tag_only",
        part="filters",
        upstream="ExpressionMessageFilter.isMatchedByConsumeQueue",
        does="only one tag of a subscription to several tags is compared",
        breaks="a subscription to TagA || TagB gets the messages of both",
        file=PULLING,
        function="_by_tags",
        old="return None if is_for_all else MessageFilter(code_filter(subscription))",
        new="""codes = subscription.code_set[:1]
    return None if is_for_all else MessageFilter(lambda code: code in codes)""",
        invariants=("server 50",),
    ),
    Bug(
        name="first_subscription_stays",
        part="filters",
        upstream="ConsumerGroupInfo.updateSubscription",
        does="a heartbeat with a newer subscription does not replace the known one",
        breaks="the latest subscription is used: a member that joins later can pull with it",
        file=CHANNELS,
        function="_merge",
        old="if known is None or data.sub_version > known.sub_version:",
        new="if known is None:",
        invariants=("server 52", "server 62"),
    ),
    Bug(
        name="commit_marks_new_queues_only",
        part="offsets",
        upstream="ConsumerOffsetManager.commitOffset",
        does="the offset table is marked as changed for a new queue, not for a new offset",
        breaks="a restart of the broker keeps committed offsets that are older than 5 s",
        file=OFFSETS,
        function="ConsumerOffsets._store",
        old="""queues[queue_id] = offset
        self._changed()""",
        new="""is_new = queue_id not in queues
        queues[queue_id] = offset
        if is_new:
            self._changed()""",
        invariants=("server 22",),
    ),
    Bug(
        name="no_first_offset_once_written",
        part="offsets",
        upstream="ConsumerManageProcessor.queryConsumerOffset",
        does="a group without a commit gets no first offset if the queue has messages",
        breaks="a new group consumes a queue from its first message if the queue still has it",
        file=OFFSETS,
        function="first_offset",
        old="if min_offset > 0 or (max_offset == 0 and release >= EMPTY_QUEUE_HAS_NO_OFFSET):",
        new="if max_offset > 0 or release >= EMPTY_QUEUE_HAS_NO_OFFSET:",
        invariants=("server 64",),
    ),
    Bug(
        name="lock_reply_names_all_queues",
        part="locks",
        upstream="RebalanceLockManager.tryLockBatch",
        does="the reply lists all requested queues, also those that another client has locked",
        breaks="a queue is locked for one client at a time",
        file=LOCKS,
        function="RebalanceLocks.lock",
        old="                held[queue] = renewed\n                granted.append(queue)",
        new="                held[queue] = renewed\n            granted.append(queue)",
        invariants=("server 66",),
    ),
    Bug(
        name="lock_never_lapses",
        part="locks",
        upstream="RebalanceLockManager.LockEntry.isExpired",
        does="the lifetime of a lock in milliseconds is used as seconds: 60,000 s",
        breaks="a lock whose owner died is free 60 s after its last renewal",
        file=LOCKS,
        function="RebalanceLocks._has_lapsed",
        old="return now_ms - lock.renewed_ms > self._lock_ms_max",
        new="return now_ms - lock.renewed_ms > self._lock_ms_max * 1_000",
        invariants=("server 66",),
    ),
    Bug(
        name="held_pull_never_expires",
        part="pull",
        upstream="PullRequestHoldService.notifyMessageArriving",
        does="a held pull is answered when a message comes, and not when its time is over",
        breaks="a held pull without news is answered after 15 s, at the latest after 20 s",
        file=PULLING,
        function="PullMessageProcessor._hold",
        old="until_ms = self._sweep_at(call.now_ms + hold_ms)",
        new="until_ms = call.now_ms + hold_ms + 86_400_000",
        invariants=("server 45",),
    ),
    Bug(
        name="wake_first_held_pull_only",
        part="pull",
        upstream="PullRequestHoldService.notifyMessageArriving",
        does="a message wakes only the pull that is held longest, not those of other groups",
        breaks="a message wakes every held pull of its queue that wants it",
        file=BELLS,
        function="Bells._deliver",
        old="for held in list(self._held.get(bell, ())):",
        new="for held in list(self._held.get(bell, ()))[:1]:",
        invariants=("server 47",),
    ),
)

BUGS: tuple[Bug, ...] = (*_NAME_SERVERS, *_MEMBERS, *_STORE, *_DELAYS, *_CONSUMING)
