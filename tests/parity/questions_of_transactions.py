"""Half messages, their ends and their checks: valid and invalid requests of producers and tools.

They run on a broker of their own, whose first half message is its first message, at position 0.
No unknown outcome is among them, because it has no answer, and no check: a real broker makes its
first one half a minute after its start, when these questions have been answered.
"""

from __future__ import annotations

from typing import Any

from tests.parity.question import Question, RequestCode, Sleep, Step, plain, pull, send, with_body

COMMIT, ROLLBACK = "8", "12"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01pg"
OFFSET_ID = "7F00000100002A9F"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"


def half(title: str, name: str, text: str = HALF, /, **changed: Any) -> Question:
    """A half message with its own unique key; its position is kept as *name*."""
    properties = f"UNIQ_KEY\x01{name}\x02{text}"
    # The flag does not matter to a broker; with it the questioner does not wait for an index.
    fields = {"e": "1", "f": "4", "i": properties, "keep": ("position", name), **changed}
    return send(title, fields.pop("topic", "Orders"), **fields)


def end(title: str, position: Any, offset: Any, outcome: Any = COMMIT, /, **more: Any) -> Question:
    """END_TRANSACTION, with the reply that clients do not ask for."""
    fields = {
        "producerGroup": "pg",
        "tranStateTableOffset": offset,
        "commitLogOffset": position,
        "commitOrRollback": outcome,
        "msgId": "K",
        "fromTransactionCheck": "false",
        **more,
    }
    return plain(title, RequestCode.END_TRANSACTION, **fields)


def resume(title: str, msg_id: Any = ..., /) -> Question:
    """RESUME_CHECK_HALF_MESSAGE."""
    return plain(title, RequestCode.RESUME_CHECK_HALF_MESSAGE, msgId=msg_id)


def rejects(title: str, value: str) -> Question:
    """UPDATE_BROKER_CONFIG: whether half messages are refused."""
    body = f"rejectTransactionMessage={value}\n".encode()
    return with_body(title, RequestCode.UPDATE_BROKER_CONFIG, body)


_SENT: tuple[Step, ...] = (
    half("a half message", "h0"),
    half("its property in capitals", "h1", "TRAN_MSG\x01TRUE\x02PGROUP\x01pg"),
    half("its property is another word", "no", "TRAN_MSG\x01yes\x02PGROUP\x01pg"),
    half("a half message without a group", "h2", "TRAN_MSG\x01true"),
    half("a half message with all flags", "h3", f"{HALF}\x02TAGS\x01A\x02WAIT\x01true", f="12"),
    half("a half message with a delay", "late", f"{HALF}\x02DELAY\x011"),
    half("a half message that is a retry", "h4", HALF, j="2"),
    half("a delayed retry that was a half message", "again", f"{HALF}\x02DELAY\x011", j="2"),
    half("an old half message with an immunity", "h5", f"{HALF}\x02"
         "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160", g="1"),
    half("one with an immunity that is a word", "h6", f"{HALF}\x02"
         "CHECK_IMMUNITY_TIME_IN_SECONDS\x01soon", g="1"),
    half("a half message of a queue that is not there", "no1", e="9", keep=None),
    half("a half message for the half messages' topic", "no2", topic=HALF_TOPIC, keep=None),
    half("a half message of a topic that will go", "h7", topic="Going"),
    pull("nothing is in its queue", queueId="1"),
)  # fmt: skip

_REFUSED: tuple[Step, ...] = (
    end("an end by another group", "{h0}", "0", producerGroup="other"),
    end("an end by a group without a name", "{h0}", "0", producerGroup=""),
    end("an end by no group", "{h0}", "0", producerGroup=...),
    end("an end of another offset", "{h0}", "1"),
    end("an end of a negative offset", "{h0}", "-1"),
    end("an end of the largest offset", "{h0}", str(2**63 - 1)),
    end("an end of an offset that is a word", "{h0}", "first"),
    end("an end of no offset", "{h0}", ...),
    end("an end beyond the log", str(1 << 40), "0"),
    end("an end at a negative position", "-1", "0"),
    end("an end at the largest position", str(2**63 - 1), "0"),
    end("an end at a position that is a word", "first", "0"),
    end("an end at no position", ..., "0"),
    end("an end with an outcome that there is not", "{h0}", "0", "5"),
    end("an end with the outcome of a half message", "{h0}", "0", "4"),
    end("an end with an outcome that is a word", "{h0}", "0", "commit"),
    end("an end with no outcome", "{h0}", "0", ...),
    end("an end with no message id", "{h0}", "0", msgId=...),
    end("an end whose check is a word", "{h0}", "0", ROLLBACK, producerGroup="other",
        fromTransactionCheck="maybe"),
    end("an end of one without a group", "{h2}", "2"),
    end("a rollback by another group", "{h0}", "0", ROLLBACK, producerGroup="other"),
    end("a rollback of another offset", "{h0}", "7", ROLLBACK),
    end("a rollback beyond the log", str(1 << 40), "0", ROLLBACK),
    end("an end of one that is no half message", "{no}", "0"),
    end("a late commit by the producer", "{h5}", "5"),
    end("a late rollback by the producer", "{h5}", "5", ROLLBACK),
    end("a late commit by another group", "{h5}", "5", producerGroup="other"),
    end("a late commit with an immunity that is a word", "{h6}", "6"),
)  # fmt: skip

_ENDED: tuple[Step, ...] = (
    end("a commit", "{h0}", "0"),
    Sleep(ms=300),
    pull("the committed message", queueId="1"),
    end("a second commit", "{h0}", "0", topic="Orders", bname="broker-a", transactionId="h0"),
    end("a rollback after the commit", "{h0}", "0", ROLLBACK),
    end("a rollback", "{h1}", "1", ROLLBACK),
    end("a commit after the rollback", "{h1}", "1"),
    end("a commit of one with all flags", "{h3}", "3"),
    end("a commit of one that was a retry", "{h4}", "4"),
    end("a late commit that answers a check", "{h5}", "5", fromTransactionCheck="true"),
    Sleep(ms=300),
    pull("all committed messages", queueId="1"),
)

_RESUMED: tuple[Step, ...] = (
    resume("no message to check again"),
    resume("an empty id to check again", ""),
    resume("a word to check again", "first"),
    resume("an id that is too short", OFFSET_ID),
    resume("an id beyond the log", OFFSET_ID + "0000010000000000"),
    resume("an id of a negative position", OFFSET_ID + "F" * 16),
    resume("a half message to check again", OFFSET_ID + "0" * 16),
    rejects("half messages are refused from now on", "true"),
    half("a half message that is refused", "no3", keep=None),
    half("one that is no half message is not refused", "no4", "TRAN_MSG\x01no"),
    rejects("half messages are taken again", "false"),
    half("a half message that is taken", "h9"),
    plain("the name of the topics of the system", RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
)

# At upstream the rollback of an ordinary message stores a record.  4.9 drops the half messages
# with the deleted topic, if its first check is still to come.
_LAST: tuple[Step, ...] = (
    end("a rollback of one that is no half message", "{no}", "0", ROLLBACK),
    plain("the topic goes", RequestCode.DELETE_TOPIC_IN_BROKER, topic="Going"),
    end("a commit for a topic that is gone", "{h7}", "7"),
)

TRANSACTIONS: tuple[Step, ...] = (*_SENT, *_REFUSED, *_ENDED, *_RESUMED, *_LAST)
