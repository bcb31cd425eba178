"""Where we answer differently on purpose, each with its reason, and when two answers agree."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.protocol.codes import ResponseCode
from tests.parity.answer import EXCEPTION

CHOSEN = {
    # Upstream fails half-way here: what stands before the null has been done, and the failure
    # is answered.  A client that sends such a list would be served by neither.
    "null sets": "a null for a list of groups is an empty list",
    "a null member": "a null among groups is passed over",
    "a lock of null queues": "a null for a list of queues is an empty list",
    "a lock of a null queue": "a null among queues is passed over",
    # Names of queues are texts everywhere here, never null; a queue without a topic cannot be
    # consumed, so that nobody locks one.
    "a lock of a queue without a name": "its names are empty in the answer, not absent",
    # 4.9.7 makes a list of -1 places and fails; 5.x answers as we do in both.
    "less than none": "at most -1 messages are one message in 4.9, too",
    # A field of 5.x, which 4.9.7 would not look at.  Ours has one type of it for all releases,
    # and 5.3.3 refuses it as ours does.
    "bytes at most that are a word": "a field of 5.x is read in 4.9, too",
    # The body is the word null, which 4.9.7 obeys by doing nothing and 5.3.3 fails on.  Ours
    # refuses what is no group in both.
    "a group that is null": "a group that is no object is refused in 4.9, too",
    # 4.9.7 checks the topic's name first, then fails on the queue id that is absent.  Ours reads
    # all numbers before the handler begins: the code is the same.
    "a send with no fields": "what is absent is a number before it is a name",
    # 5.3.3 lists topics as if they were groups (a defect of its own, gone in later releases).
    "who consumes": "groups that have committed are listed, and not topics",
}


def agree(real: dict[str, Any], ours: dict[str, Any] | None) -> bool:
    """Are they the same, whole remarks included?

    Where upstream fails on an exception only the code counts: its remark is a stack frame.
    """
    if ours is None or real["code"] != ours["code"]:
        return False
    return is_exception(real) or real == ours


def is_exception(answer: dict[str, Any]) -> bool:
    """Did a real broker fail here, rather than refuse?"""
    failed = answer["code"] == ResponseCode.SYSTEM_ERROR
    remark = answer["remark"]
    return failed and (remark is None or EXCEPTION.match(remark) is not None)
