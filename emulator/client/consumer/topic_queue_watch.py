"""Listening for the queues of topics: a NameServer is asked every 30 seconds.

For consumers that choose their queues themselves, and want to know of new ones.

Upstream: DefaultLitePullConsumerImpl.fetchTopicMessageQueuesAndCompare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from emulator.client.arguments import check_plain_function, check_subscribed
from emulator.client.errors import ClientError
from emulator.client.instance.plain_functions import callback_raised

if TYPE_CHECKING:
    from emulator.client.consumer.member import Member
    from protocol.queues import MessageQueue

TopicQueuesChanged: TypeAlias = Callable[[str, "list[MessageQueue]"], object]


class TopicQueueWatch:
    """The listeners of one consumer, one a topic."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._calls = member.calls
        self._listeners: dict[str, TopicQueuesChanged] = {}
        self._queues: dict[str, list[MessageQueue]] = {}

    async def listen(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Call *listener(topic, queues)* when they are others than now.

        Raises what ``GroupCalls.queues_of`` raises; the listener is kept.
        """
        check_subscribed(topic)
        check_plain_function("listener", listener, takes="topic, queues")
        self._listeners[topic] = listener
        self._queues[topic] = await self._calls.queues_of(topic)

    async def compare(self) -> None:
        """Ask for each topic; the first that fails ends the round."""
        for topic, listener in list(self._listeners.items()):
            try:
                queues = await self._calls.queues_of(topic)
            except ClientError:
                return
            if queues != self._queues.get(topic):
                self._queues[topic] = queues
                self._call(listener, topic, queues)

    def _call(self, listener: TopicQueuesChanged, topic: str, queues: list[MessageQueue]) -> None:
        try:
            listener(topic, queues)
        except Exception as error:  # noqa: BLE001  # other listeners go on
            self._member.note(callback_raised(self._member.group, "on_topic_queues", error))
