"""An answer in a comparable form: values that depend on the time or on a port are masked.

Times become ``<time>`` unless they are 0 or negative; addresses of this machine and the host
half of a message id become ``<host>``, a key made by the broker ``<key>``, messages a second
``<rate>``.  Lists are sorted, because many are sets.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.java import java_json, java_properties
from rocketmq_emulator.protocol.messages.records import BadRecord, StoredMessage, decode_records

FAILURE_CHARS_MAX = 200  # of an exception's remark: the rest are stack frames
TEXT_CHARS_MAX = 100
EXCEPTION = re.compile(r"(java|org\.apache|com\.alibaba|io\.netty)\.|Cannot invoke")
_TIMES = {
    "timestamp",
    "lastTimestamp",
    "lastUpdateTimestamp",
    "lastUpdateTime",
    "minTimeStamp",
    "maxTimeStamp",
    "consumeTimeStamp",
    "delayTime",
}
_PORTS = {"listenPort", "haListenPort"}
_TIME_TEXT = re.compile(r"20\d\d-\d\d-\d\d#[\d:]+")
_TIME_IN_TEXT = re.compile(r'(?<=Time":)\d{13}\b')  # JSON in a text: a group's filter
_PATH = re.compile(r"(?<=^commitLogDiskRatio_).*")
_MADE_KEY = re.compile(r"[0-9A-F]{32}|[0-9A-F]{56}")
_ADDRESS = re.compile(r"/?127\.0\.0\.1:\d+")
_OFFSET_ID = re.compile(r"\b7F000001[0-9A-F]{8}(?=[0-9A-F]{16}\b)")


def shown(reply: RemotingCommand | None) -> dict[str, Any] | None:
    """The reply with masked values; None if there was no reply."""
    if reply is None:
        return None
    ext = None if not reply.ext else reply.fields()
    return {
        "code": reply.code,
        "remark": _remark(reply.remark or ""),
        "ext": ext if ext is None else {k: _field(k, v) for k, v in sorted(ext.items())},
        "body": _body(reply.body),
    }


def position_of(reply: RemotingCommand) -> str:
    """The position in the log of the message in this reply."""
    return str(int(reply.fields()["msgId"][-16:], 16))


def _remark(remark: str) -> str | None:
    shown = _text(remark)
    return (shown[:FAILURE_CHARS_MAX] if EXCEPTION.match(shown) else shown) or None


def _field(key: str, value: str) -> str:
    if key == "version":  # a data version
        return re.sub(r"\d{13}", "<time>", value)
    if key in _TIMES and int(value) > 0:
        return "<time>"
    return _text(value)


def _text(text: str) -> str:
    if _MADE_KEY.fullmatch(text):
        return "<key>"
    if _TIME_TEXT.fullmatch(text):
        return "<time>"
    return _TIME_IN_TEXT.sub("<time>", _OFFSET_ID.sub("<host>", _ADDRESS.sub("<host>", text)))


def _body(body: bytes) -> Any:
    if not body:
        return None
    if body.startswith((b"{", b"[")):
        return _json(java_json.read(body))
    if body.isascii():  # a broker's settings: records are never ASCII
        return _settings(java_properties.parse(body.decode()))
    try:
        return [_record(message) for message in decode_records(body)]
    except BadRecord:
        return body.decode("utf-8", "replace")


def _json(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        if set(value) >= {"counter", "timestamp"}:  # a data version
            return {**value, "timestamp": "<time>"}
        if "bootTimestamp" in value:
            return _figures(value)
        return {str(k): _json(v, str(k)) for k, v in sorted(value.items(), key=str)}
    if isinstance(value, list):
        return sorted((_json(item) for item in value), key=repr)
    if isinstance(value, Decimal) or (key in _TIMES and value > 0):
        return "<rate>" if isinstance(value, Decimal) else "<time>"
    return _text(value) if isinstance(value, str) else value


def _settings(table: dict[str, str]) -> dict[str, str]:
    """The settings of a broker; folders and ports are masked."""
    return {k: _setting(k, v) for k, v in sorted(table.items())}


def _setting(name: str, value: str) -> str:
    if name in _PORTS:
        return "<port>"
    return "<path>" if value.startswith("/") else _text(value)


def _figures(table: dict[str, str]) -> dict[str, str]:
    """The runtime figures of a broker: each name with the form of its value."""
    return {_PATH.sub("<path>", name): _form(value) for name, value in sorted(table.items())}


def _form(figure: str) -> str:
    """Mask each number, whatever its precision and its unit of bytes."""
    figure = re.sub(r"\b[KMGTPE]iB", "B", figure)
    return re.sub(r"\d+(\.\d+(E-?\d+)?)?|-1", "<number>", figure)


def _record(message: StoredMessage) -> dict[str, Any]:
    properties = message.property_map()
    return {
        "topic": message.topic,
        "queue": [message.queue_id, message.queue_offset],
        "position": message.position,
        "size": message.size,
        "flags": [message.flag, message.sys_flag],
        "born_ms": message.born_ms,
        "reconsume_times": message.reconsume_times,
        "prepared_offset": message.prepared_offset,
        "body": _short(message.body.decode()),
        "properties": {k: _short(v) for k, v in sorted(properties.items())},
    }


def _short(text: str) -> str:
    return _text(text) if len(text) <= TEXT_CHARS_MAX else f"{len(text)} characters"
