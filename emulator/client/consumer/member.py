"""One consumer as a member of its group: the state that all its parts share.

The parts (rebalance, pulling, consuming) use this object and each other's few entry
points, not the consumer that builds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from emulator.client.consumer.consume_figures import ConsumeFigures
from emulator.client.consumer.offsets import StartAtZero, StartOffsets
from protocol.names import retry_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from emulator.client.consumer.consumer_config import GroupMemberConfig
    from emulator.client.consumer.group_calls import GroupCalls
    from emulator.client.consumer.offsets import OffsetStore, Starts
    from emulator.client.consumer.process_queue import ProcessQueue
    from emulator.client.consumer.pull_config import LitePullConsumerConfig, PullConsumerConfig
    from emulator.client.consumer.push_config import PushConsumerConfig
    from emulator.client.instance.instance import ClientInstance
    from emulator.facts import Note
    from emulator.net.timers import Timer
    from emulator.releases import Release
    from protocol.queues import MessageQueue
    from protocol.subscription import SubscriptionData


class Member:
    """State without behaviour, and two ways to do something later or beside.

    What every kind of consumer has.  ``starts`` is given by the kind: where it begins in a
    queue that it was just given.
    """

    starts: Starts

    def __init__(
        self,
        config: GroupMemberConfig,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        self.config: GroupMemberConfig = config
        self.is_broadcasting = config.is_broadcasting
        self.group = config.group
        self.retry_topic = retry_topic(config.group)
        self.instance = instance
        self.release: Release = config.rules
        self.calls = calls
        self.offsets = offsets
        self.note: Note = instance.note
        self.now_ms: Callable[[], int] = instance.clock.now_ms
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.subscription_changed = False  # since the last rebalance pass
        self.held: dict[MessageQueue, ProcessQueue] = {}
        self.started_ms = self.now_ms()
        self.is_running = False
        self._nursery = nursery

    def later(self, delay_ms: int, action: Callable[[], object]) -> Timer:
        """Call the short *action* after *delay_ms*; not once the consumer is closed."""

        def act() -> None:
            if self.is_running:
                action()

        at_s = trio.current_time() + delay_ms / 1000
        return self.instance.remoting.timers.at(at_s, act)

    def beside(self, work: Callable[[], Awaitable[object]]) -> None:
        """Start *work* in a task of its own, and do not wait for it; not once it is closed.

        A rebalance pass may outlive its consumer.
        """
        if self.is_running:
            self._nursery.start_soon(work)


class PushMember(Member):
    """A push consumer's: it may be paused as a whole, and counts what it consumes."""

    config: PushConsumerConfig

    def __init__(
        self,
        config: PushConsumerConfig,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(config, instance, calls, offsets, nursery)
        from_ms = config.new_group_from_ms(self.started_ms)
        self.starts = StartOffsets(
            offsets, calls, config.consume_from, new_group_from_ms=from_ms, release=config.rules
        )
        self.figures = ConsumeFigures(self.started_ms)
        self.is_paused = False


class PullMember(Member):
    """A pull consumer's: its application knows where it begins, so it begins at 0."""

    config: PullConsumerConfig

    def __init__(
        self,
        config: PullConsumerConfig,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(config, instance, calls, offsets, nursery)
        self.starts = StartAtZero()


class LitePullMember(Member):
    """A lite pull consumer's."""

    config: LitePullConsumerConfig
    starts: StartOffsets

    def __init__(
        self,
        config: LitePullConsumerConfig,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(config, instance, calls, offsets, nursery)
        self.starts = StartOffsets(
            offsets,
            calls,
            config.consume_from,
            new_group_from_ms=config.new_group_from_ms(self.started_ms),
            release=config.rules,
            memory_first=True,
        )
