"""Validation: the names and messages that a client, a broker and a commit log accept.

Every function returns the reason of a refusal, or None.  Client and broker have the same checks
in a different order, so they refuse a name that is too long and has illegal characters for
different reasons.  Upstream: Validators; TopicValidator; DefaultMessageStore.checkMessage.

Errors about arguments have the same wording for messages, clients and their settings: the name,
the expected type, and the given value.

    topic is a str, not bytes b'orders'
    body is bytes, not str 'two cups': encode it, 'two cups'.encode()
"""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import re
from collections.abc import Iterable
from typing import Final

from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX, TOPICS_NOT_SENDABLE

TOPIC_CHARS_MAX = 127
GROUP_CHARS_MAX = 255
MESSAGE_BYTES_MAX = 4 * 1024 * 1024  # DefaultMQProducer and MessageStoreConfig.maxMessageSize
STORED_TOPIC_BYTES_MAX = 127  # one length byte, read as a signed one
LONG_RETRY_TOPIC_BYTES_MAX = 255  # since 5.1.0

_PATTERN = "^[%|a-zA-Z0-9_-]+$"
_LEGAL = re.compile(_PATTERN)
_RETRY_PREFIX = RETRY_GROUP_TOPIC_PREFIX.encode()


def is_legal(name: str) -> bool:
    """Whether a name has legal characters only; also true for the empty name.

    Upstream: TopicValidator.isTopicOrGroupIllegal.
    """
    return not name or (_LEGAL.match(name) is not None and name[-1] != "\n")


# Clients: Validators ------------------------------------------------------------------


def client_refuses_topic(topic: str | None) -> str | None:
    """Why a client does not use *topic*.  Upstream: checkTopic."""
    if topic is None or not topic.strip():
        return "The specified topic is blank"
    if len(topic) > TOPIC_CHARS_MAX:
        return f"The specified topic is longer than topic max length {TOPIC_CHARS_MAX}."
    if not is_legal(topic):
        return (
            f"The specified topic[{topic}] contains illegal characters, allowing only {_PATTERN}"
        )
    return None


@functools.lru_cache(maxsize=1_000)  # called for every message
def client_refuses_send_to(topic: str | None) -> str | None:
    """Why a client does not send to *topic*.  Upstream: isNotAllowedSendTopic."""
    if (complaint := client_refuses_topic(topic)) is not None:
        return complaint
    if topic in TOPICS_NOT_SENDABLE:
        return f"Sending message to topic[{topic}] is forbidden."
    return None


def client_refuses_body(body_bytes: int, bytes_max: int = MESSAGE_BYTES_MAX) -> str | None:
    """Why a client does not send a body of that length.  Upstream: checkMessage."""
    if not body_bytes:
        return "a message has a body"
    if body_bytes > bytes_max:
        return f"a body of {body_bytes} bytes is over the limit of {bytes_max}"
    return None


def client_refuses_group(group: str | None) -> str | None:
    """Why a client does not join *group*.  Upstream: checkGroup."""
    if group is None or not group.strip():
        return "the specified group is blank"
    if len(group) > GROUP_CHARS_MAX:
        return f"the specified group is longer than group max length {GROUP_CHARS_MAX}."
    if not is_legal(group):
        return (
            f"the specified group[{group}] contains illegal characters, allowing only {_PATTERN}"
        )
    return None


# Brokers: TopicValidator --------------------------------------------------------------


def broker_refuses_topic(topic: str | None) -> str | None:
    """Why a broker does not create *topic*.  Upstream: validateTopic."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if not is_legal(topic):
        return f"The specified topic contains illegal characters, allowing only {_PATTERN}"
    if len(topic) > TOPIC_CHARS_MAX:
        return "The specified topic is longer than topic max length."
    return None


def broker_refuses_group(group: str) -> str | None:
    """Why a broker does not create *group*; it accepts the empty name.

    Upstream: SubscriptionGroupManager.findSubscriptionGroupConfig.
    """
    if len(group) > GROUP_CHARS_MAX:
        return f"a group's name of {len(group)} characters"
    if not is_legal(group):
        return "a group's name with illegal characters"
    return None


# The log: checkMessage ----------------------------------------------------------------


def log_refuses_topic(topic: bytes, *, long_retry_topics: bool) -> str | None:
    """Why the log does not store *topic*; *long_retry_topics*: longer %RETRY% topics, as 5.1."""
    is_long = long_retry_topics and topic.startswith(_RETRY_PREFIX)
    bytes_max = LONG_RETRY_TOPIC_BYTES_MAX if is_long else STORED_TOPIC_BYTES_MAX
    return f"a topic of {len(topic)} bytes" if len(topic) > bytes_max else None


# The wording of errors about arguments ------------------------------------------------


NAMES_SHOWN_MAX = 20
REPR_CHARS_MAX: Final = 60


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar to *name*, or begins or ends with it; or empty."""
    names = [*known]
    partly = [each for each in names if each.startswith(name) or each.endswith(f"_{name}")]
    return next(iter(difflib.get_close_matches(name, names, n=1) or partly), "")


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error about *name*: the name that was meant, or all of a few known ones."""
    names = [*known]
    if near := nearest(name, names):
        return f"; did you mean {near}?"
    return f"; there are {', '.join(names)}" if len(names) <= NAMES_SHOWN_MAX else ""


def type_error_text(name: str, wanted: str, value: object) -> str:
    """The error text for an argument *name* that must be *wanted*, and is *value*."""
    return f"{name} is {wanted}, not {short_repr(value)}{_advice(value, wanted)}"


def short_repr(value: object) -> str:
    """The type and the value, cut to ``REPR_CHARS_MAX``; ``None`` for None."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a broken __repr__ must not hide the error that shows it
        text = ""
    if len(text) > REPR_CHARS_MAX:
        text = f"{text[:REPR_CHARS_MAX]}…"
    return f"{type(value).__name__} {text}".rstrip()


def _advice(value: object, wanted: str) -> str:
    if wanted.startswith("bytes") and isinstance(value, str):
        return f": encode it, {value[:20]!r}{'…' if len(value) > 20 else ''}.encode()"
    if wanted.startswith("a str") and isinstance(value, bytes):
        return f": decode it, {value[:20]!r}{'…' if len(value) > 20 else ''}.decode()"
    if isinstance(value, dt.datetime):
        return ": int(when.timestamp() * 1000)"
    if isinstance(value, dt.timedelta):
        return ": int(duration.total_seconds() * 1000)"
    return ""
