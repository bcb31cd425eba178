"""The producer of transactional messages, for applications.

    class Payments(TransactionListener):
        async def execute_local_transaction(self, message, argument): ...
        async def check_local_transaction(self, message): ...

    async with TransactionProducer(Payments(), namesrv="127.0.0.1:9876", group="shop") as producer:
        result = await producer.send_in_transaction(Message("orders", b"one more"), "A-17")

A message is delivered if its local transaction commits.  A broker that gets no end asks the
producers of the group (``check_local_transaction``), so another process of the group, or the
same one after a restart, must be able to answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rocketmq_emulator.client.instance.plain_functions import InlineCalls
from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.client.producer.transactions import ListenerMethod, Transactions
from rocketmq_emulator.client.settings.arguments import (
    check_message,
    check_timing,
    check_transaction_listener,
    is_coroutine_function,
)
from rocketmq_emulator.client.settings.config import TransactionProducerConfig
from rocketmq_emulator.errors.call_errors import NotRunning
from rocketmq_emulator.net.tasks import cancelling_nursery

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from rocketmq_emulator.client.instance.plain_functions import PlainCalls
    from rocketmq_emulator.client.instance.process import ClientProcess
    from rocketmq_emulator.client.producer.send_pipeline import SendPipeline
    from rocketmq_emulator.client.producer.transactions import (
        TransactionListener,
        TransactionSendResult,
    )
    from rocketmq_emulator.protocol.messages.message import Message


class TransactionProducer(Producer):
    """A producer that also sends transactional messages, whose local transactions *listener* runs.

    Settings are those of ``TransactionProducerConfig``: pass a *config*, or single fields by name.
    Without a *process* it makes its own, with TCP and this machine's clock.
    Upstream: TransactionMQProducer.
    """

    config: TransactionProducerConfig
    _CONFIG_TYPE: ClassVar[type[TransactionProducerConfig]] = TransactionProducerConfig

    def __init__(
        self,
        listener: TransactionListener,
        config: TransactionProducerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        **settings: object,
    ) -> None:
        check_transaction_listener(listener)
        super().__init__(config, process=process, **settings)
        self._listener = listener
        self._transactions: Transactions | None = None

    async def send_in_transaction(
        self,
        message: Message,
        argument: object = None,
        *,
        timeout_ms: int | None = None,
        worker: int = 0,
    ) -> TransactionSendResult:
        """Send *message* as a half message, run the local transaction, and report its state.

        The listener gets *message* and *argument*.  If the half message is stored, but not as
        safely as configured (``status``), the state is ROLLBACK_MESSAGE and no local transaction
        runs.  Reporting is one-way; a broker without a report asks later.  A delay level of
        *message* is cleared.  The other arguments and the errors are those of ``send``: after an
        error no local transaction ran.  Upstream: TransactionMQProducer.sendMessageInTransaction.
        """
        check_timing(timeout_ms, worker)
        check_message(message)
        if self._transactions is None:
            raise NotRunning("a producer is used inside its `async with` only")
        return await self._transactions.send(message, argument, timeout_ms, worker)

    # Inside ---------------------------------------------------------------------------

    async def _prepare(
        self, process: ClientProcess, pipeline: SendPipeline, stack: AsyncExitStack
    ) -> None:
        """Start the workers that answer checks, before a heartbeat can cause one."""
        config = self.config
        execute = self._method(
            process, "execute_local_transaction", threads_max=config.local_transactions_max
        )
        check = self._method(
            process, "check_local_transaction", threads_max=config.check_threads_max
        )
        transactions = Transactions(pipeline, config, execute, check)
        workers = await stack.enter_async_context(cancelling_nursery())
        for _ in range(config.check_threads_max):
            workers.start_soon(transactions.answer_checks)
        pipeline.transaction_checks = self._transactions = transactions
        stack.callback(self._forget)

    def _method(self, process: ClientProcess, name: str, *, threads_max: int) -> ListenerMethod:
        """The listener's method: a plain one runs as the world defines, or on the event loop."""
        config, function = self.config, getattr(self._listener, name)
        calls: PlainCalls | None = None
        if is_coroutine_function(function):
            calls = None
        elif config.listeners_inline:
            calls = InlineCalls(config.listener_ms) if config.listener_ms else None
        else:
            calls = process.plain_functions.for_listener(
                threads_max=threads_max, listener_ms=config.listener_ms
            )
        return ListenerMethod(name, function, calls)

    def _forget(self) -> None:
        self._transactions = None
