"""Recalling a timer message at the broker that its handle names.

Upstream: DefaultMQProducerImpl.recallMessage, MQClientAPIImpl.recallMessage (5.3.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.client.errors import ClientErrorCode, MessageIllegal, RecallFailed
from emulator.net.errors import NeverSent, RemoteError
from protocol.catalog import RECALL_MESSAGE
from protocol.codes import ResponseCode, response_name
from protocol.fields import BadFields
from protocol.names import DLQ_GROUP_TOPIC_PREFIX, is_retry_topic
from protocol.recall_handles import BadHandle, RecallHandle, decode_handle
from protocol.requests.sending import RecallMessageReply, RecallMessageRequest
from protocol.validation import client_refuses_topic

if TYPE_CHECKING:
    from emulator.client.producer.send_kernel import SendKernel
    from emulator.net.remoting_client import RemotingClient


async def recall_message(
    kernel: SendKernel, remoting: RemotingClient, topic: str, text: str, *, timeout_ms: int
) -> str:
    """One call; the ``msg_id`` of the message.

    Raises ``MessageIllegal``, ``RecallFailed``, and what looking for a route raises.
    """
    handle = _checked(topic, text)
    info = await kernel.table.find(topic)
    address = kernel.address(handle.broker_name) or kernel.address(info.queues[0].broker_name)
    if address is None:
        code = ClientErrorCode.BROKER_NOT_EXIST
        raise RecallFailed(f"{handle.broker_name} has no master", code=code)
    request = RecallMessageRequest(
        topic=topic,
        recall_handle=text,
        producer_group=kernel.config.group,
        bname=handle.broker_name,
    )
    try:
        reply = await remoting.invoke(address, RECALL_MESSAGE, request, timeout_ms=timeout_ms)
        if reply.code == ResponseCode.SUCCESS:
            return reply.decode(RecallMessageReply).msg_id
    except NeverSent as error:
        raise RecallFailed(str(error), code=ClientErrorCode.CONNECT_BROKER) from error
    except (RemoteError, BadFields) as error:
        raise RecallFailed(str(error), maybe_recalled=True) from error
    name = response_name(reply.code, kernel.config.rules)
    raise RecallFailed(f"{handle.broker_name}: {name}: {reply.remark}", code=reply.code)


def _checked(topic: str, text: str) -> RecallHandle:
    if (complaint := client_refuses_topic(topic)) is not None:
        raise MessageIllegal(complaint)
    if is_retry_topic(topic) or topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
        raise MessageIllegal("topic is not supported")
    try:
        return decode_handle(text)
    except BadHandle as error:
        raise MessageIllegal(str(error)) from error
