"""The start and the end of a consumer, which are the same for each kind.

A kind (a subclass) defines its parts and how they start.  ``GroupConsumer`` does the rest: it
gets a process and an instance, registers the group, notes that the consumer started and stopped,
and ends the parts in order.  When the block ends, the consumer writes its offsets and
unregisters; when it is cancelled, it sends nothing, like a killed process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from rocketmq_emulator.client.consumer.group.consume_traces import ConsumeTraces
from rocketmq_emulator.client.consumer.group.group_calls import GroupCalls
from rocketmq_emulator.client.consumer.group.member import (
    Member,
    check_consumer_arguments,
    check_group,
    check_misuses,
    check_topics_exist,
    instance_for,
    note_started,
    note_stopped,
    offset_store,
    process_for,
)
from rocketmq_emulator.client.instance.interfaces import RegisteredConsumer
from rocketmq_emulator.client.instance.process import note_left
from rocketmq_emulator.client.instance.tracing import start_tracing
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
    from rocketmq_emulator.client.instance.tracing import TraceDispatcher


class Membership(RegisteredConsumer, Protocol):
    """The consumer as it is registered at its instance, with the steps that end it."""

    async def unregister(self) -> None:
        """Write offsets, unregister at every broker; does nothing when cancelled."""
        ...

    def stop(self) -> None:
        """Drop every queue."""
        ...


class RunningConsumer(Protocol):
    """The parts of a started consumer."""

    @property
    def member(self) -> Member:
        """The state that the parts share."""
        ...


Config = TypeVar("Config", bound=GroupMemberConfig)
Running = TypeVar("Running", bound=RunningConsumer)
Made = TypeVar("Made", bound=Member)


class GroupConsumer(ABC, Generic[Config, Running]):
    """The base class of the three consumers; ``config`` holds the settings."""

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
        self._dispatcher: TraceDispatcher | None = None
        self._pipeline: Running | None = None

    async def __aenter__(self) -> Self:
        """Start.  Raises ``GroupTaken``, ``BadSubscription``, and the errors of its kind."""
        check_not_running(self._pipeline, "consumer")
        async with AsyncExitStack() as stack:
            process = await process_for(stack, self._process)
            self._prepare(process)
            instance = await instance_for(stack, process, self.config)
            self._dispatcher = await start_tracing(
                stack, process, self.config, self.config.group, "CONSUME"
            )
            nursery = await stack.enter_async_context(cancelling_nursery())
            running = self._build(instance, nursery)
            check_misuses(running.member, running.member.subscriptions.values())
            if self.config.strict:
                await check_topics_exist(running.member)
            membership = self._membership(running)
            instance.register_consumer(membership)
            note_started(running.member, self._KIND, orderly=self._is_orderly)
            # The stack ends in reverse order: the kind's own tasks, offsets and group, queues.
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
        """Write offsets and unregister; unacknowledged messages are delivered again."""
        note_left(error)
        self._pipeline = None
        return await self._stack.__aexit__(kind, error, traceback)

    @property
    def instance(self) -> ClientInstance:
        """The client instance that it uses.  Raises ``NotRunning`` outside of the block."""
        return self._running.member.instance

    @property
    def _running(self) -> Running:
        if self._pipeline is None:
            raise NotRunning("a consumer is used inside its `async with` only")
        return self._pipeline

    # For the kinds to implement -------------------------------------------------------

    @property
    def _is_orderly(self) -> bool:
        return False

    @property
    def _traced_timeout_ms(self) -> int:
        """How long a listener may take before its trace shows a timeout."""
        return 0

    def _prepare(self, process: ClientProcess) -> None:  # most kinds need nothing
        """Called before the instance is made.  Raises ``Misuse`` if *process* is unsuitable."""

    @abstractmethod
    def _build(self, instance: ClientInstance, nursery: trio.Nursery) -> Running:
        """Make the parts.  Raises ``BadSubscription``."""

    @abstractmethod
    def _membership(self, running: Running) -> Membership:
        """The part that is registered at the instance."""

    async def _start(self, running: Running, stack: AsyncExitStack) -> None:
        """Start to consume; the kind's own tasks end with *stack*."""
        del stack
        running.member.is_running = True

    def _member(
        self,
        make: Callable[[Config, ClientInstance, GroupCalls, OffsetStore, trio.Nursery], Made],
        instance: ClientInstance,
        nursery: trio.Nursery,
    ) -> Made:
        """Make the member; when broadcasting, its stored offsets are loaded."""
        calls = GroupCalls(instance, self.config.group)
        offsets = offset_store(self.config, instance, calls, self._documents)
        member = make(self.config, instance, calls, offsets, nursery)
        if self._dispatcher is not None:
            timeout_ms = self._traced_timeout_ms
            member.traces = ConsumeTraces(self._dispatcher, instance.uniq_keys, timeout_ms)
        offsets.load()
        return member
