"""Intended differences from real answers, each with its reason, and when two answers agree."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.protocol.codes import ResponseCode
from tests.parity.answer import EXCEPTION

CHOSEN = {
    # Upstream fails in the middle of the list: it has handled the items before the null, and
    # answers with the failure.  A client that sends such a list can use neither answer.
    "null sets": "a null for a list of groups is an empty list",
    "a null member": "a null among groups is passed over",
    "a lock of null queues": "a null for a list of queues is an empty list",
    "a lock of a null queue": "a null among queues is passed over",
    # Names of queues are texts everywhere here, never null.  No client locks a queue without a
    # topic, because it cannot be consumed.
    "a lock of a queue without a name": "its names are empty in the answer, not absent",
    # 4.9.7 creates a list of capacity -1 and fails; 5.x answers as ours does in both releases.
    "less than none": "at most -1 messages are one message in 4.9, too",
    # A field of 5.x, which 4.9.7 does not read.  Ours decodes it for all releases, and refuses
    # it as 5.3.3 does.
    "bytes at most that are a word": "a field of 5.x is read in 4.9, too",
    # The body is the word null: 4.9.7 does nothing, 5.3.3 fails.  Ours refuses a body that is
    # not an object in both releases.
    "a group that is null": "a group that is no object is refused in 4.9, too",
    # 4.9.7 checks the topic's name first, then fails on the absent queue id.  Ours decodes all
    # numbers before the handler begins: the code is the same.
    "a send with no fields": "what is absent is a number before it is a name",
    # 5.3.3 lists topics as if they were groups: a defect, which later releases do not have.
    "who consumes": "groups that have committed are listed, and not topics",
}

CHOSEN_OF_TRANSACTIONS = {
    # 5.3.3 fails when it counts the rollback for a topic that the message does not name.  Before,
    # it has recorded the rollback for the half message at the same offset, if there is one; so
    # has 4.9.7, which answers as ours does.
    "a rollback of one that is no half message": "it is answered in 5.x, too",
}


def agree(real: dict[str, Any], ours: dict[str, Any] | None) -> bool:
    """Whether both answers are equal, including their remarks.

    If upstream failed with an exception, only the codes are compared: its remark is a stack frame.
    """
    if ours is None or real["code"] != ours["code"]:
        return False
    return is_exception(real) or real == ours


def is_exception(answer: dict[str, Any]) -> bool:
    """Whether a real broker failed with an exception, and did not refuse the request."""
    failed = answer["code"] == ResponseCode.SYSTEM_ERROR
    remark = answer["remark"]
    return failed and (remark is None or EXCEPTION.match(remark) is not None)
