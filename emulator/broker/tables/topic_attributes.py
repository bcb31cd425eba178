"""Attributes of topics: the changes that a request may make, and their result.

A request names the changes, as ``+message.type=FIFO,-queue.type``; the table has the names without
signs.  Only known attributes with known values are taken, and some cannot be changed later.  No
attribute has an effect here: the message type is checked by proxies alone.

Upstream: AttributeParser.parseToMap, AttributeUtil.alterCurrentAttributes, TopicAttributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.settings.releases import CLEANUP_POLICY_KNOWN, MIXED_TYPE_KNOWN, Release

MESSAGE_TYPE = "message.type"
MIXED = "MIXED"


class _Attribute(NamedTuple):
    values: frozenset[str]
    is_changeable: bool = False
    since: Release = Release(5, 0, 0)


# reserve.time is refused in every release, as stores in files do not have it.
KNOWN: Mapping[str, _Attribute] = {
    "queue.type": _Attribute(frozenset({"BatchCQ", "SimpleCQ"})),
    "cleanup.policy": _Attribute(frozenset({"DELETE", "COMPACTION"}), since=CLEANUP_POLICY_KNOWN),
    MESSAGE_TYPE: _Attribute(
        frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"}), is_changeable=True
    ),
}


def changes_of(text: str | None) -> dict[str, str]:
    """The changes that a request names: values by signed names.  Raises ``Refusal``."""
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if equals and "+" not in key:
            raise _refused(f"add/alter attribute format is wrong: {key}")
        if not equals and "-" not in key:
            raise _refused(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise _refused(f"key duplication: {key}")
        changes[key] = value
    return changes


def is_mixed(changes: Mapping[str, str], release: Release) -> bool:
    """Whether the message type is to be MIXED, which brokers refuse by default (since 5.1.4)."""
    return release >= MIXED_TYPE_KNOWN and changes.get(f"+{MESSAGE_TYPE}") == MIXED


def altered(
    before: Mapping[str, str] | None, changes: Mapping[str, str], release: Release
) -> dict[str, str]:
    """The attributes of a topic after *changes*; *before* is None for a new topic.

    Raises ``Refusal``.
    """
    after = dict(before or {})
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, name = signed[:1], signed[1:]
        if not name or "+" in name or "-" in name:
            raise _refused("kv string format wrong.")
        if name in seen:
            raise _refused(f"alter duplication key. key: {name}")
        seen.add(name)
        _check_sign(sign, name, before)
        _check_value(name, value, release, is_new=before is None, is_deleted=sign == "-")
        if sign == "-":
            del after[name]
        else:
            after[name] = value
    return after


def _check_sign(sign: str, name: str, before: Mapping[str, str] | None) -> None:
    if before is None and sign != "+":
        raise _refused(f"only add attribute is supported while creating topic. key: {name}")
    if sign not in "+-":
        raise _refused(f"wrong format key: {name}")
    if sign == "-" and name not in (before or {}):
        raise _refused(f"attempt to delete a nonexistent key: {name}")


def _check_value(
    name: str, value: str, release: Release, *, is_new: bool, is_deleted: bool
) -> None:
    known = KNOWN.get(name)
    if known is None or release < known.since:
        raise _refused(f"unsupported key: {name}")
    if not is_new and not known.is_changeable:
        raise _refused(f"attempt to update an unchangeable attribute. key: {name}")
    if not is_deleted and value not in known.values:
        raise _refused(f"value is not in set: [{', '.join(sorted(known.values))}]")


def _refused(remark: str) -> Refusal:
    """The answer to changes that are not made.  Upstream: RuntimeException of AttributeUtil."""
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)
