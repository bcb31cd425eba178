"""Checks that several tables and handlers make; those that find fault raise ``Refusal``.

How much one broker keeps has a limit; upstream keeps whatever it is sent.  A limit is
reached by one client that is broken or by very many that are not: who comes too late is
answered SYSTEM_BUSY, and what is there already stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.subscription import is_tag_type

if TYPE_CHECKING:
    from rocketmq_emulator.settings.config import BrokerConfig

CLIENT_RETRIES_SINCE_VERSION = 121  # MQVersion.V3_4_9
NOT_SET = "not set any response code"  # a remark that upstream does not clear
NAME_CHARS_MAX = 1_000  # of a group, a client id, a committed topic: 4.x checks none of them


def check_room(count: int, count_max: int, what: str) -> None:
    """Is there room for one more?"""
    if count >= count_max:
        raise Refusal(ResponseCode.SYSTEM_BUSY, f"too many {what}: the limit is {count_max}")


def check_size(count: int, count_max: int, what: str) -> None:
    """Are these not too many at once?"""
    if count > count_max:
        raise Refusal(
            ResponseCode.SYSTEM_BUSY, f"too many {what} at once: {count}, the limit is {count_max}"
        )


def check_name(name: str, what: str) -> None:
    """Is it short enough to be kept?"""
    if len(name) > NAME_CHARS_MAX:
        raise Refusal(ResponseCode.SYSTEM_BUSY, f"{what} of {len(name)} characters")


def check_writable(config: BrokerConfig, host: str) -> None:
    """Does the broker's own permission allow writing?"""
    if not config.perm & flags.PERM_WRITE:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"the broker[{host}] sending message is forbidden"
        )


def check_expression_type(kind: str | None, config: BrokerConfig) -> None:
    """Can messages be chosen by an expression of that type?

    Tags are compared as hash codes.  Any other type is refused in upstream's two ways: by a
    broker that is not configured to filter by properties, and by one that is and cannot
    read the expression.  This one reads none yet: SQL92 belongs here.

    Upstream: ConsumerFilterManager, FilterFactory.
    """
    if is_tag_type(kind):
        return
    if not config.property_filter:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {kind}",
        )
    raise Refusal(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        f"parse the consumer's subscription failed: expressions of type {kind} are not read here",
    )


def java_text(text: str | None) -> str:
    """How Java writes a text that may be missing into a remark."""
    return "null" if text is None else text


def client_retries_max(version: int, asked: int | None) -> int | None:
    """After how many failures a client takes a message for dead, if its version can tell.

    Upstream: SendMessageProcessor.asyncConsumerSendMsgBack, handleRetryAndDLQ.
    """
    return asked if version >= CLIENT_RETRIES_SINCE_VERSION else None
