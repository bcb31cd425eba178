"""Transactional messages at the producer: half message, local transaction, end, check.

A half message is stored at the broker, but not delivered.  The local transaction runs after it,
and its state (commit, rollback, unknown) is reported to the broker one-way: a lost report does no
harm, because the broker asks about a half message without an end.  Such a check is answered to
the address that it came from, by any producer of the group.

The listener's two methods never raise here: an exception, or an invalid return value, is the
state UNKNOW, with the error in the remark of the request, as in upstream.

Upstream: DefaultMQProducerImpl (sendMessageInTransaction, endTransaction, checkTransactionState),
TransactionListener.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec
import trio

from rocketmq_emulator.client.instance.plain_functions import callback_raised
from rocketmq_emulator.client.producer.outgoing_message import check
from rocketmq_emulator.client.producer.send_kernel import SendResult
from rocketmq_emulator.client.settings.arguments import is_coroutine_function
from rocketmq_emulator.errors.call_errors import MessageIllegal
from rocketmq_emulator.facts import (
    LocalTransactionEnded,
    Queue,
    TransactionAnswered,
    TransactionCheckDropped,
)
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.catalog import END_TRANSACTION
from rocketmq_emulator.protocol.messages import properties
from rocketmq_emulator.protocol.messages.message_ids import position_of
from rocketmq_emulator.protocol.requests.sending import EndTransactionRequest
from rocketmq_emulator.settings.releases import END_NAMES_BROKER, END_NAMES_TOPIC

if TYPE_CHECKING:
    from rocketmq_emulator.client.instance.plain_functions import PlainCalls
    from rocketmq_emulator.client.producer.send_pipeline import SendPipeline
    from rocketmq_emulator.client.settings.config import TransactionProducerConfig
    from rocketmq_emulator.protocol.messages.message import Message, MessageExt
    from rocketmq_emulator.protocol.requests.groups import CheckTransactionStateRequest

# The listener -------------------------------------------------------------------------


class LocalTransactionState(Enum):
    """The state of a local transaction, with upstream's spelling."""

    COMMIT_MESSAGE = "commit"  # the message is delivered
    ROLLBACK_MESSAGE = "rollback"  # it is not
    UNKNOW = "unknown"  # the broker asks later


State: TypeAlias = LocalTransactionState | None  # None: UNKNOW


class TransactionListener(Protocol):
    """The application's part of a transaction; each method may be async.

    Both return a ``LocalTransactionState``; None, and an exception, mean UNKNOW.  A subclass is
    not needed: any object with these two methods is a listener.  Upstream: TransactionListener.
    """

    def execute_local_transaction(
        self,
        message: Message,
        argument: Any,  # noqa: ANN401  # whatever the application passes
        /,
    ) -> State | Awaitable[State]:
        """Run the local transaction, after the half message was stored.

        *message* has a ``transaction_id`` now, *argument* is that of ``send_in_transaction``.
        """
        ...

    def check_local_transaction(self, message: MessageExt, /) -> State | Awaitable[State]:
        """The state of the transaction of *message*; any producer of the group may be asked.

        Its ``transaction_id`` is that of the sent message.
        """
        ...


class TransactionSendResult(SendResult, frozen=True, kw_only=True, gc=False):
    """The result of the half message's send, and the state of the local transaction.

    ``queue_offset`` is that in the queue of half messages.  Upstream: TransactionSendResult.
    """

    local_transaction_state: LocalTransactionState


class LocalOutcome(NamedTuple):
    """A state, and the *error* for which it is UNKNOW."""

    state: LocalTransactionState
    error: Exception | None = None


class ListenerMethod:
    """One method of a listener.  *plain_calls* runs a plain function; None: the event loop."""

    def __init__(
        self, name: str, function: Callable[..., Any], plain_calls: PlainCalls | None
    ) -> None:
        self.name = name
        self._function = function
        self._is_async = is_coroutine_function(function)
        self._plain_calls = plain_calls

    async def wait_outcome(self, *arguments: object) -> LocalOutcome:
        """Call it and wait for its outcome; any exception is an outcome."""
        if self._is_async:
            try:
                return _outcome(await self._function(*arguments))
            except Exception as error:  # noqa: BLE001  # any exception is its outcome
                return LocalOutcome(LocalTransactionState.UNKNOW, error)
        if self._plain_calls is None:
            return self._invoke(arguments)
        return await self._plain_calls.run(lambda: self._invoke(arguments))

    def _invoke(self, arguments: tuple[object, ...]) -> LocalOutcome:
        try:
            return _outcome(self._function(*arguments))
        except Exception as error:  # noqa: BLE001  # any exception is its outcome
            return LocalOutcome(LocalTransactionState.UNKNOW, error)


def _outcome(returned: object) -> LocalOutcome:
    # Upstream answers no check whose listener returned null; a broker treats UNKNOW alike.
    if returned is None:
        return LocalOutcome(LocalTransactionState.UNKNOW)
    if isinstance(returned, LocalTransactionState):
        return LocalOutcome(returned)
    if inspect.iscoroutine(returned):
        returned.close()  # otherwise Python warns that it was never awaited
    raise TypeError(
        f"a transaction listener returns a LocalTransactionState or None, not {returned!r:.100}"
    )


# The transactions of one producer -----------------------------------------------------


FLAG_OF_STATE = {
    LocalTransactionState.COMMIT_MESSAGE: flags.TRANSACTION_COMMIT,
    LocalTransactionState.ROLLBACK_MESSAGE: flags.TRANSACTION_ROLLBACK,
    LocalTransactionState.UNKNOW: flags.TRANSACTION_NOT,
}
assert {*FLAG_OF_STATE} == {*LocalTransactionState}


class TransactionCheck(NamedTuple):
    """A broker's question about a half message."""

    message: MessageExt
    request: CheckTransactionStateRequest
    address: str  # of the broker that asked


class Transactions:
    """Sends half messages, ends them, and answers checks, for the group of *pipeline*."""

    def __init__(
        self,
        pipeline: SendPipeline,
        config: TransactionProducerConfig,
        execute: ListenerMethod,
        check: ListenerMethod,
    ) -> None:
        self._pipeline = pipeline
        self._config = config
        self._execute = execute
        self._check = check
        self._note = pipeline.instance.note
        self._remoting = pipeline.instance.remoting
        waiting_max = config.check_requests_max
        self._waiting, self._next = trio.open_memory_channel[TransactionCheck](waiting_max)

    async def send(
        self, message: Message, argument: object, timeout_ms: int | None, worker: int
    ) -> TransactionSendResult:
        """Send *message* as a half message, run the local transaction, and report its state.

        Raises the errors of ``SendPipeline.send``; then no local transaction ran.
        """
        self._make_half(message)
        result = await self._pipeline.send(message, timeout_ms, worker)
        if result.is_ok:
            if result.transaction_id is not None:
                message.properties[properties.TRANSACTION_ID] = result.transaction_id
            message.transaction_id = message.uniq_key
            outcome = await self._execute.wait_outcome(message, argument)
            self._note_raised(self._execute, outcome)
        else:  # it may be lost with its broker
            outcome = LocalOutcome(LocalTransactionState.ROLLBACK_MESSAGE)
        self._end(message, result, outcome)
        return TransactionSendResult(
            **msgspec.structs.asdict(result), local_transaction_state=outcome.state
        )

    def check(
        self, message: MessageExt, request: CheckTransactionStateRequest, address: str, /
    ) -> None:
        """A broker asks; the answer is sent when the listener has returned.

        Above ``check_requests_max`` waiting checks it is dropped: the broker asks again.
        """
        message.transaction_id = message.uniq_key or message.transaction_id
        try:
            self._waiting.send_nowait(TransactionCheck(message, request, address))
        except trio.WouldBlock:
            waiting = self._config.check_requests_max
            self._note(
                TransactionCheckDropped(self._config.group, message.uniq_key or "", waiting)
            )

    async def answer_checks(self) -> None:
        """Answer one check after the other, until cancelled."""
        async for asked in self._next:
            outcome = await self._check.wait_outcome(asked.message)
            self._note_raised(self._check, outcome)
            self._answer(asked, outcome)

    # Inside ---------------------------------------------------------------------------

    def _make_half(self, message: Message) -> None:
        """Upstream clears the delay level only: a time of delivery stays."""
        delay = message.properties.pop(properties.DELAY, None)
        if self._config.strict and delay is not None:
            raise MessageIllegal(
                f"a transactional message is not delayed: its delay level, {delay}, has no effect"
            )
        check(message, self._config)
        message.properties[properties.TRAN_MSG] = "true"
        message.properties[properties.PGROUP] = self._config.group

    def _end(self, message: Message, result: SendResult, outcome: LocalOutcome) -> None:
        """Report to the master of the broker that stored the half message."""
        error = _text_of(outcome.error)
        problem = self._send_end(message, result, outcome)
        queue = result.queue
        self._note(
            LocalTransactionEnded(
                message.topic,
                Queue(queue.topic, queue.broker_name, queue.queue_id),
                result.queue_offset,
                self._config.group,
                message.uniq_key or "",
                outcome.state.value,
                "; ".join(filter(None, (error, problem))),
            )
        )

    def _send_end(self, message: Message, result: SendResult, outcome: LocalOutcome) -> str:
        """Send the end; returns why nothing could be sent, or an empty text."""
        broker = result.queue.broker_name
        address = self._pipeline.instance.brokers.to_publish(broker)
        if address is None:
            return f"not reported: {broker} has no master"
        try:
            position = position_of(result.offset_msg_id or result.msg_id)
        except ValueError as error:
            return f"not reported: the broker's message id is none: {error}"
        self._trace(message, address, outcome, from_check=False)
        self._send(
            address,
            EndTransactionRequest(
                producer_group=self._config.group,
                tran_state_table_offset=result.queue_offset,
                commit_log_offset=position,
                commit_or_rollback=FLAG_OF_STATE[outcome.state],
                msg_id=result.msg_id,
                transaction_id=result.transaction_id,
                topic=message.topic,
                bname=broker,
            ),
            "executeLocalTransactionBranch exception",
            outcome.error,
        )
        return ""

    def _answer(self, asked: TransactionCheck, outcome: LocalOutcome) -> None:
        message, request = asked.message, asked.request
        self._trace(message, asked.address, outcome, from_check=True)
        self._send(
            asked.address,
            EndTransactionRequest(
                producer_group=self._config.group,
                tran_state_table_offset=request.tran_state_table_offset,
                commit_log_offset=request.commit_log_offset,
                commit_or_rollback=FLAG_OF_STATE[outcome.state],
                from_transaction_check=True,
                msg_id=message.msg_id,
                transaction_id=request.transaction_id,
                topic=request.topic,
                bname=request.bname,
            ),
            "checkLocalTransactionState Exception",
            outcome.error,
        )
        self._note(
            TransactionAnswered(
                self._config.group,
                message.uniq_key or "",
                outcome.state.value,
                _text_of(outcome.error),
            )
        )

    def _send(
        self, address: str, end: EndTransactionRequest, what: str, error: Exception | None
    ) -> None:
        release = self._config.rules
        if not END_NAMES_BROKER.reached(release):
            end.bname = None
        if release < END_NAMES_TOPIC:
            end.topic = None
        remark = None if error is None else f"{what}: {_text_of(error)}"
        self._remoting.send_oneway(address, END_TRANSACTION, end, remark=remark)

    def _trace(
        self, message: Message, address: str, outcome: LocalOutcome, *, from_check: bool
    ) -> None:
        if (traces := self._pipeline.traces) is not None:
            traces.transaction_ended(
                message.topic,
                message.properties,
                store_host=address,
                state=outcome.state.name,
                from_check=from_check,
            )

    def _note_raised(self, method: ListenerMethod, outcome: LocalOutcome) -> None:
        if outcome.error is not None:
            self._note(callback_raised(self._config.group, method.name, outcome.error))


def _text_of(error: Exception | None) -> str:
    return "" if error is None else "".join(traceback.format_exception_only(error)).strip()
