"""Where we answer differently on purpose, and when two answers agree."""

from __future__ import annotations

import re
from typing import Any

from protocol.codes import ResponseCode

# A required field that is absent, or null, is refused at once.  Upstream goes on until
# something needs it; then it fails on a null pointer, with the same code 1, or never.
REFUSED_AT_ONCE = frozenset(
    {
        "without a (producerGroup)",
        "without b (topic)",
        "without c (defaultTopic)",
        "without d (defaultTopicQueueNums)",
        "a topic that is null",
        "a send with no fields",
        "a pull without commitOffset",
        "a pull without suspendTimeoutMillis",
        "a pull without subVersion",
        "bytes at most that are a word",  # a field that 4.9.7 does not know
        "a heartbeat of nobody",
        "a heartbeat without a name",
        "the members without a name",
        "somebody goes",
        "no subscription",
        "a query without a group",
        "a commit, no group",
        "a commit, no queue",
        "a commit, no offset",
        "a topic without topic",
        "a topic without defaultTopic",
        "a group that is null",
        "what is not said goes",
    }
)
# A null where a list or one of its items belongs is passed over; upstream fails on it.
PASSED_OVER = frozenset(
    {
        "null sets",
        "a null member",
        "a lock of null queues",
        "a lock of a null queue",
        "a lock of a queue without a name",  # and its names are empty rather than null
        "less than none",  # 4.9.7 fails, 5.x answers as we do in both
    }
)
# 5.3.3 lists topics as if they were groups (a defect of its own, gone in later releases).
NOT_IMITATED = frozenset({"who consumes"})
CHOSEN = REFUSED_AT_ONCE | PASSED_OVER | NOT_IMITATED

_EXCEPTION = re.compile(r"(java|org\.apache|com\.alibaba|io\.netty)\.|Cannot invoke|$")
_REMARK_CHARS = 60  # behind it stand addresses, advice and where to read on


def agree(real: dict[str, Any], ours: dict[str, Any] | None) -> bool:
    """Would a client notice?  Where upstream fails on an exception only the code counts."""
    if ours is None or real["code"] != ours["code"]:
        return False
    if is_exception(real):
        return True
    parts = ("ext", "body")
    return _alike(real["remark"], ours["remark"]) and all(real[p] == ours[p] for p in parts)


def is_exception(answer: dict[str, Any]) -> bool:
    """Did a real broker fail here, rather than refuse?"""
    failed = answer["code"] == ResponseCode.SYSTEM_ERROR
    return failed and _EXCEPTION.match(answer["remark"] or "") is not None


def _alike(one: str | None, other: str | None) -> bool:
    first, second = (one or ""), (other or "")
    chars = min(len(first), len(second), _REMARK_CHARS)
    return first[:chars] == second[:chars] and bool(first) == bool(second)
