"""The life of a consumer, which is the same for each kind: it registers, starts, and ends.

A kind says which parts it has and how they start; all else stands here: its process and its
instance, its place in the group, the facts that it started and stopped, and the order in which
it ends.  When the block ends, offsets are written and the consumer unregisters; when it is
cancelled, nothing is sent, as by a process that is killed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from rocketmq_emulator.client.consumer.group.group_calls import GroupCalls
from rocketmq_emulator.client.consumer.group.member import (
    Member,
    check_consumer_arguments,
    check_group,
    instance_for,
    note_started,
    note_stopped,
    offset_store,
    process_for,
)
from rocketmq_emulator.client.instance.interfaces import RegisteredConsumer
from rocketmq_emulator.client.settings.config import GroupMemberConfig, merged_config
from rocketmq_emulator.errors.call_errors import NotRunning, check_not_running, refuse_sync_with
from rocketmq_emulator.net.tasks import cancelling_nursery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any

    import trio

    from rocketmq_emulator.client.consumer.group.allocation import Strategy
    from rocketmq_emulator.client.consumer.group.member import Expression, QueuesChanged
    from rocketmq_emulator.client.consumer.group.offsets import OffsetStore
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.instance.interfaces import Documents
    from rocketmq_emulator.client.instance.process import ClientProcess


class Membership(RegisteredConsumer, Protocol):
    """The consumer as its instance sees it, and its end."""

    async def unregister(self) -> None:
        """Write offsets, unregister at every broker; nothing when cancelled."""
        ...

    def stop(self) -> None:
        """Drop every queue."""
        ...


class RunningConsumer(Protocol):
    """The parts of a consumer between its start and its end."""

    @property
    def member(self) -> Member:
        """The state that they share."""
        ...


Config = TypeVar("Config", bound=GroupMemberConfig)
Running = TypeVar("Running", bound=RunningConsumer)
Made = TypeVar("Made", bound=Member)


class GroupConsumer(ABC, Generic[Config, Running]):
    """What applications use is one of its kinds; their settings are in ``config``."""

    _KIND: ClassVar[Literal["push", "lite_pull", "pull"]]

    def __init__(
        self,
        config: Config | None,
        settings: dict[str, Any],
        *,
        config_type: type[Config],
        subscriptions: Mapping[str, Expression] | None,
        process: ClientProcess | None,
        strategy: Strategy,
        documents: Documents | None,
        on_queues: QueuesChanged | None,
    ) -> None:
        check_consumer_arguments(subscriptions, process, strategy, documents, on_queues)
        self.config = merged_config(config_type, config, settings)
        check_group(self.config.group)
        self._subscriptions = dict(subscriptions or {})
        self._process = process
        self._strategy = strategy
        self._documents = documents
        self._on_queues = on_queues
        self._stack = AsyncExitStack()
        self._pipeline: Running | None = None

    async def __aenter__(self) -> Self:
        """Start.  Raises ``GroupTaken``, ``BadSubscription``, and what its kind raises."""
        check_not_running(self._pipeline, "consumer")
        async with AsyncExitStack() as stack:
            process = await process_for(stack, self._process)
            self._prepare(process)
            instance = await instance_for(stack, process, self.config)
            nursery = await stack.enter_async_context(cancelling_nursery())
            running = self._build(instance, nursery)
            membership = self._membership(running)
            instance.register_consumer(membership)
            note_started(running.member, self._KIND, orderly=self._is_orderly)
            # What is pushed last ends first: the kind's own tasks, offsets and the group, queues.
            stack.callback(note_stopped, running.member)
            stack.callback(membership.stop)
            stack.push_async_callback(membership.unregister)
            await self._start(running, stack)
            self._pipeline = running
            self._stack = stack.pop_all()
        return self

    __enter__ = refuse_sync_with
    __exit__ = refuse_sync_with

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Write offsets and unregister; what was not acknowledged is delivered again."""
        self._pipeline = None
        return await self._stack.__aexit__(kind, error, traceback)

    @property
    def instance(self) -> ClientInstance:
        """The client instance it runs on.  Raises ``NotRunning`` unless it has started."""
        return self._running.member.instance

    @property
    def _running(self) -> Running:
        if self._pipeline is None:
            raise NotRunning("a consumer is used inside its `async with` only")
        return self._pipeline

    # What a kind adds -----------------------------------------------------------------

    @property
    def _is_orderly(self) -> bool:
        return False

    def _prepare(self, process: ClientProcess) -> None:  # most kinds need nothing
        """Before there is an instance.  Raises ``Misuse`` for what cannot work in *process*."""

    @abstractmethod
    def _build(self, instance: ClientInstance, nursery: trio.Nursery) -> Running:
        """Its parts.  Raises ``BadSubscription``."""

    @abstractmethod
    def _membership(self, running: Running) -> Membership:
        """What takes routes, passes and pulls."""

    async def _start(self, running: Running, stack: AsyncExitStack) -> None:
        """Begin to work; *stack* ends what the kind starts by itself."""
        del stack
        running.member.is_running = True

    def _member(
        self,
        make: Callable[[Config, ClientInstance, GroupCalls, OffsetStore, trio.Nursery], Made],
        instance: ClientInstance,
        nursery: trio.Nursery,
    ) -> Made:
        """The member, with its offsets loaded where it keeps them itself."""
        calls = GroupCalls(instance, self.config.group)
        offsets = offset_store(self.config, instance, calls, self._documents)
        member = make(self.config, instance, calls, offsets, nursery)
        offsets.load()
        return member
