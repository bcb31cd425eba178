"""Pull consumers for threads: ``PullConsumer`` and ``LitePullConsumer``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from emulator.client import LitePullConsumer as CoreLitePullConsumer
from emulator.client import PullConsumer as CorePullConsumer
from protocol.subscription import SUB_ALL, TAG
from rocketmq_emulator._host import core_of
from rocketmq_emulator._names import (
    AVG,
    LitePullConsumerConfig,
    MessageExt,
    PullConsumerConfig,
    Strategy,
)
from rocketmq_emulator._sync_client import ClientProcess, called_back
from rocketmq_emulator._sync_methods import LitePullConsumerMethods, PullConsumerMethods

if TYPE_CHECKING:
    from emulator.client.consumer.consume_pipeline import QueuesChanged
    from emulator.client.consumer.enrolment import Expression
    from emulator.client.consumer.topic_queue_watch import TopicQueuesChanged
    from emulator.client.instance.interfaces import Documents


class PullConsumer(PullConsumerMethods):
    """Pulls queues as its application asks, as a member of one group.

    *subscriptions* are the topics it tells brokers of; it may pull others, too.  The rest
    is as with ``PushConsumer``: settings by name are those of ``PullConsumerConfig``.
    """

    def __init__(
        self,
        subscriptions: Mapping[str, Expression] | None = None,
        config: PullConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: Any,
    ) -> None:
        core = CorePullConsumer(
            subscriptions,
            config,
            process=core_of(process, ClientProcess),
            strategy=strategy,
            documents=documents,
            on_queues=called_back("on_queues", on_queues),
            **settings,
        )
        super().__init__(core)

    @property
    def config(self) -> PullConsumerConfig:
        """Its settings."""
        return self._core.config


class LitePullConsumer(LitePullConsumerMethods):
    """Hands out messages by ``poll`` or in a loop, as a member of one group.

    *subscriptions* are as with ``PushConsumer``; without any, subscribe or assign later.
    *assign_expressions* are tags by topic, for assigned queues.  Settings by name are those
    of ``LitePullConsumerConfig``.  Functions of queues are called in the thread of the
    callbacks.
    """

    def __init__(
        self,
        subscriptions: Mapping[str, Expression] | None = None,
        config: LitePullConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        assign_expressions: Mapping[str, str] | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: Any,
    ) -> None:
        core = CoreLitePullConsumer(
            subscriptions,
            config,
            process=core_of(process, ClientProcess),
            strategy=strategy,
            documents=documents,
            assign_expressions=assign_expressions,
            on_queues=called_back("on_queues", on_queues),
            **settings,
        )
        super().__init__(core)

    @property
    def config(self) -> LitePullConsumerConfig:
        """Its settings."""
        return self._core.config

    def subscribe(
        self,
        topic: str,
        expression: str = SUB_ALL,
        kind: str = TAG,
        *,
        on_queues: QueuesChanged | None = None,
    ) -> None:
        """Subscribe *topic* too, or with another expression; sends heartbeats at once.

        Its queues come when the brokers have told the group.  An *on_queues* replaces the
        one there is, for all topics.  Raises ``BadSubscription``, and ``Misuse`` if queues
        are assigned.
        """
        told = called_back("on_queues", on_queues)
        self._call(self._core.subscribe, topic, expression, kind, on_queues=told)

    def register_topic_message_queue_change_listener(
        self, topic: str, listener: TopicQueuesChanged
    ) -> None:
        """Call ``listener(topic, queues)`` when *topic* has other queues: looked at every 30 s.

        One listener a topic: a second one replaces the first.  Raises what
        ``fetch_message_queues`` raises.
        """
        told = called_back("listener", listener, takes="topic, queues")
        assert told is not None, "there is one"
        self._call(self._core.register_topic_message_queue_change_listener, topic, told)

    def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The messages of one pull, [] if none came within *timeout_ms*.

        Commits first what earlier polls returned, when that is due.  Without a *timeout_ms*:
        ``poll_timeout_ms``.  A poll that Ctrl-C ends loses nothing: the next one has it.
        """
        return self.portal.wait_keeping(self._core.give_back, self._core.poll, timeout_ms)

    def __iter__(self) -> Self:
        """``for message in consumer``: polls again and again, until the loop is left."""
        return self

    def __next__(self) -> MessageExt:
        """The next message; a batch is committed after its last one."""
        return self.portal.wait_keeping(self._give_back_one, self._core.__anext__)

    def _give_back_one(self, message: MessageExt) -> None:
        self._core.give_back([message])
