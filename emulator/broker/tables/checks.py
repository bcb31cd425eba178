"""Checks that several tables and handlers share; a failed check raises ``Refusal``.

The tables of a broker have limits; upstream keeps everything that clients send.  A broken client
or very many clients can reach a limit: then new entries are refused with SYSTEM_BUSY, and the
existing ones stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.subscription import is_tag_type
from rocketmq_emulator.settings.releases import INVALID_PARAMETER_CODE, Release

if TYPE_CHECKING:
    from rocketmq_emulator.settings.config import BrokerConfig

CLIENT_RETRIES_SINCE_VERSION = 121  # MQVersion.V3_4_9
NOT_SET = "not set any response code"  # upstream's default remark, which it does not clear
NAME_CHARS_MAX = 1_000  # of a group, a client id, a committed topic: 4.x checks none of them


def check_room(count: int, count_max: int, what: str) -> None:
    """Raises ``Refusal`` if a table with *count* entries has no room for one more."""
    if count >= count_max:
        raise Refusal(ResponseCode.SYSTEM_BUSY, f"too many {what}: the limit is {count_max}")


def check_size(count: int, count_max: int, what: str) -> None:
    """Raises ``Refusal`` if *count* exceeds *count_max*."""
    if count > count_max:
        raise Refusal(
            ResponseCode.SYSTEM_BUSY, f"too many {what} at once: {count}, the limit is {count_max}"
        )


def check_name(name: str, what: str) -> None:
    """Raises ``Refusal`` if *name* is too long to be kept."""
    if len(name) > NAME_CHARS_MAX:
        raise Refusal(
            ResponseCode.SYSTEM_BUSY,
            f"{what} of {len(name)} characters: the limit is {NAME_CHARS_MAX}",
        )


def check_writable(config: BrokerConfig, host: str) -> None:
    """Raises ``Refusal`` if the broker's own permission does not allow writing."""
    if not config.perm & flags.PERM_WRITE:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"the broker[{host}] sending message is forbidden"
        )


def check_property_filter(kind: str | None, config: BrokerConfig) -> None:
    """Raises ``Refusal`` if the broker does not filter by expressions of the type *kind*."""
    if not is_tag_type(kind) and not config.property_filter:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {kind}",
        )


def java_text(text: str | None) -> str:
    """*text* as Java prints it in a remark: ``null`` if it is missing."""
    return "null" if text is None else text


def client_retries_max(version: int, asked: int | None) -> int | None:
    """The retries after which a message is a dead letter, if the client's version sends them.

    Upstream: SendMessageProcessor.asyncConsumerSendMsgBack, handleRetryAndDLQ.
    """
    return asked if version >= CLIENT_RETRIES_SINCE_VERSION else None


def bad_parameter_code(release: Release) -> int:
    """The code of a refused parameter: 29, before 5.3.2 it is 1."""
    known = release >= INVALID_PARAMETER_CODE
    return ResponseCode.INVALID_PARAMETER if known else ResponseCode.SYSTEM_ERROR
