"""Timer messages of 5.x, and recalling them: steps for a broker that allows recalls.

A step is a question, or a function that makes one from the time and the earlier answers.  Times
are masked in answers; the recording shows whether a message is there, and whether it is on time.
On every machine no message is early; how late it is depends on the load of the machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.messages.message_ids import RecallHandle, decode_handle
from rocketmq_emulator.protocol.messages.properties import decode_properties
from rocketmq_emulator.protocol.messages.records import decode_records
from tests.parity.answer import shown
from tests.parity.broker_connection import command_of
from tests.parity.question import BORN_MS, Question, RequestCode, Sleep, plain, pull, send
from tests.support.paths import GOLDEN

SETTINGS = {"recallMessageEnable": "true"}
SOON_MS, LATE_MS_MAX, DAYS_3_S = 4_000, 2_000, 259_200
SOON = f"TIMER_DELAY_MS\x01{SOON_MS}"
TIMER_TOPIC = "rmq_sys_wheel_timer"
_BATCH = encode_batch([BatchMessage(b"m%d" % n, b"KEYS\x01k%d" % n) for n in range(2)])
_TIMED_FIELD = re.compile(r"TIMER_\w+_MS|BORN_TIMESTAMP")
SECONDS = ("TIMER_OUT_MS", "TIMER_ENQUEUE_MS")
_NOW = re.compile(r"1[789]\d{11}")
_OFFSET_ID = re.compile(r"<host>[0-9A-F]{16}")

Made: TypeAlias = Callable[[int, dict[str, Any]], Question]
Ask: TypeAlias = Callable[[RemotingCommand], RemotingCommand | None]
IsWhole: TypeAlias = Callable[[str, dict[str, Any] | None], bool]  # of a title and an answer


def timed(title: str, topic: str, text: str, key: str = "K0", /, **changed: Any) -> Question:
    """A send with two properties: the key and *text*."""
    return send(title, topic, i=f"UNIQ_KEY\x01{key}\x02{text}", **changed)


def at_a_time(title: str, topic: str, key: str = "K0") -> Made:
    """A send with an absolute delivery time."""
    return lambda now_ms, _: timed(title, topic, f"TIMER_DELIVER_MS\x01{now_ms + SOON_MS}", key)


def recall(title: str, handle: Any = None, topic: Any = "Recalled", /, **changed: Any) -> Made:
    """RECALL_MESSAGE with *handle*; by default, with the handle from "one to recall"."""

    def made(_now_ms: int, handles: dict[str, Any]) -> Question:
        given = handles.get("one to recall", "none") if handle is None else handle
        fields = {"producerGroup": "pg", "topic": topic, "recallHandle": given, **changed}
        return plain(title, RequestCode.RECALL_MESSAGE, **fields)

    return made


def recall_soon(title: str, broker: str = "broker-a") -> Made:
    """RECALL_MESSAGE with a handle of a future time that no send returned."""

    def made(now_ms: int, handles: dict[str, Any]) -> Question:
        text = RecallHandle("Recalled", broker, str(now_ms + SOON_MS), "KX").encode()
        return recall(title, text)(now_ms, handles)

    return made


def a_handle(deliver_ms: str = "1") -> str:
    return RecallHandle("Recalled", "broker-a", deliver_ms, "K").encode()


SENDING: tuple[Question | Made, ...] = (
    timed("a delay in milliseconds", "Ms", SOON, e="2"),
    timed("a delay in seconds", "Sec", f"TIMER_DELAY_SEC\x01{SOON_MS // 1_000}"),
    at_a_time("a time", "Deliver"),
    pull("nothing comes before its time", "Ms", queueId="2"),
    timed("seconds and milliseconds", "Both", "TIMER_DELAY_MS\x01900000\x02TIMER_DELAY_SEC\x014"),
    timed("milliseconds and a time", "Both2", f"TIMER_DELIVER_MS\x0199\x02{SOON}"),
    timed("a time in the past", "Past", "TIMER_DELIVER_MS\x011700000000000"),
    timed("no delay at all", "Past", "TIMER_DELAY_SEC\x010"),
    timed("less than no delay", "Past", "TIMER_DELAY_MS\x01-5"),
    timed("a delay beyond a long", "Past", "TIMER_DELAY_SEC\x019223372036854775807"),
    timed("a delay that is a word", "Past", "TIMER_DELAY_SEC\x01soon"),
    timed("a delay with a blank", "Past", "TIMER_DELAY_SEC\x01 2"),
    timed("a delay with a plus", "Plus", "TIMER_DELAY_SEC\x01+4"),
    timed("a time that is no long", "Past", "TIMER_DELIVER_MS\x0199999999999999999999"),
    timed("three days and more", "Past", f"TIMER_DELAY_SEC\x01{DAYS_3_S + 5}"),
    timed("hardly three days", "Far", f"TIMER_DELAY_SEC\x01{DAYS_3_S - 5}"),
    timed("a level and a time", "Level", f"DELAY\x011\x02{SOON}\x02TIMER_DELIVER_MS\x015"),
    timed("level 0 and a time", "Level0", f"DELAY\x010\x02{SOON}"),
    timed("a time for a message that has waited", "Waited", f"TIMER_OUT_MS\x015\x02{SOON}"),
    pull("it does not wait again", "Waited"),
    timed("a prepared message with a time", "Half", SOON, f="4"),
    timed("a retry with a time", "%RETRY%r", SOON, j="1"),
    send("a batch with a time", "Batch", _BATCH, m="true", i=f"UNIQ_KEY\x01KB\x02{SOON}"),
    Question(
        title="a batch with a time and the code of batches",
        code=RequestCode.SEND_BATCH_MESSAGE,
        fields=send("", "Batch2", m="true", i=f"UNIQ_KEY\x01KC\x02{SOON}").fields,
        body=_BATCH,
    ),
    timed("one that deletes now", "Past", "TIMER_DEL_UNIQKEY\x01X+Y\x02TIMER_DELAY_SEC\x010"),
    timed("one that deletes later", "Deletes", f"TIMER_DEL_UNIQKEY\x01X+Y\x02{SOON}"),
)
RECALLING: tuple[Question | Made, ...] = (
    at_a_time("one to recall", "Recalled", "KR"),
    at_a_time("one to keep", "Recalled", "KK"),
    recall("a recall"),
    recall("a recall once more"),
    recall_soon("a recall of an unknown message"),
    recall_soon("a recall at another broker", "broker-z"),
    recall("a recall of another topic", None, "Ms"),
    recall("a recall of no topic", None, "Nowhere"),
    recall("a recall of the past", a_handle()),
    recall("a recall of the far future", a_handle("99999999999999")),
    recall("a recall at a word", a_handle("soon")),
    recall("a recall without a group", producerGroup=...),
    recall("a recall without a topic", None, ...),
    recall("a recall without a handle", ...),
    recall("an empty handle", ""),
    recall("a handle that is a word", "nonsense"),
    recall("a handle of another alphabet", "djEg+//="),
    recall("a handle of another version", "djIgYSBiIGMgZA=="),
    recall("a handle with too little in it", "djEgYSBiIGM="),
    recall("a handle without its padding", a_handle().rstrip("=")),
)
LOOKING: tuple[Question | Made, ...] = (
    pull("what the milliseconds became", "Ms", queueId="2"),
    pull("what the seconds became", "Sec"),
    pull("what the time became", "Deliver"),
    pull("what seconds and milliseconds became", "Both"),
    pull("what milliseconds and a time became", "Both2"),
    pull("what was not delayed", "Past"),
    pull("what the plus became", "Plus"),
    pull("what the far one became", "Far"),
    pull("what the level became", "Level"),
    pull("what level 0 became", "Level0"),
    pull("what the prepared one became", "Half"),
    pull("what the retry became", "%RETRY%r"),
    pull("what the batch became", "Batch"),
    pull("what the other batch became", "Batch2"),
    pull("what the deleting one became", "Deletes"),
    pull("what was recalled and what was kept", "Recalled"),
    recall("a recall too late"),
    pull("all that waited", TIMER_TOPIC, maxMsgNums="64"),
)
STEPS = (*SENDING, *RECALLING, Sleep(ms=SOON_MS + LATE_MS_MAX), *LOOKING)


async def answers_of(
    ask: Ask,
    now_ms: Callable[[], int],
    pause: Callable[[float], Awaitable[None]],
    between_s: float,
    *,
    is_whole: IsWhole = lambda _title, _answer: True,
    late_ms_max: int = LATE_MS_MAX,
) -> dict[str, Any]:
    """The answers by title; waits *between_s* after each, because a broker indexes later.

    A question is repeated until *is_whole* is true of its answer.
    """
    answers: dict[str, Any] = {}
    handles: dict[str, Any] = {}
    for step in STEPS:
        if isinstance(step, Sleep):
            await pause(step.ms / 1_000)
            continue
        question = step if isinstance(step, Question) else step(now_ms(), handles)
        reply = ask(command_of(question, {}))
        while not is_whole(question.title, answer := masked(reply, late_ms_max)):
            await pause(between_s)
            reply = ask(command_of(question, {}))
        if reply is not None and (handle := reply.fields().get("recallHandle")):
            handles[question.title] = handle
        answers[question.title] = answer
        await pause(between_s)
    return answers


def masked(reply: RemotingCommand | None, late_ms_max: int) -> dict[str, Any] | None:
    """The answer without times and positions."""
    answer = shown(reply)
    if reply is None or answer is None:
        return None
    ext = answer["ext"] or {}
    if (text := ext.get("recallHandle")) is not None:
        handle = decode_handle(text)
        ext["recallHandle"] = list(handle._replace(deliver_ms=_time(handle.deliver_ms)))
    if "msgId" in ext:
        ext["msgId"] = _OFFSET_ID.sub("<id>", ext["msgId"])
    if isinstance(answer["body"], list):
        records = decode_records(reply.body)
        answer["body"] = [
            _record(*pair, late_ms_max) for pair in zip(answer["body"], records, strict=True)
        ]
    return answer


def _record(seen: dict[str, Any], record: Any, late_ms_max: int) -> dict[str, Any]:
    properties = decode_properties(record.properties)
    out_ms = int(properties.get("TIMER_OUT_MS", 0))
    asked_ms = int(properties.get("TIMER_DELIVER_MS", 0))
    late_ms = record.store_ms - max(out_ms + 1_000, asked_ms)
    seen["on time"] = record.topic == TIMER_TOPIC or not out_ms or 0 <= late_ms < late_ms_max
    for name, value in seen["properties"].items():
        if _TIMED_FIELD.fullmatch(name):
            seen["properties"][name] = _second(value) if name in SECONDS else _time(value)
    seen["born_ms"] = _time(str(seen["born_ms"])) if record.topic == TIMER_TOPIC else "<born>"
    del seen["position"], seen["size"]
    return seen


def _time(text: str) -> str:
    """Mask a present time in milliseconds, but not the born time that questions contain."""
    is_now = _NOW.fullmatch(text) and text != str(BORN_MS)
    return "<time>" if is_now else text


def _second(text: str) -> str:
    """Mask a time that the broker rounded to whole seconds."""
    return "<second>" if _NOW.fullmatch(text) and text.endswith("000") else text


def golden(release: str) -> Any:
    """The file with the answers of a real broker of *release*."""
    return GOLDEN / f"timers-{release}.jsonl"


def recorded(release: str) -> dict[str, Any]:
    """The answers of a real broker of *release*, by title."""
    lines = golden(release).read_text(encoding="utf-8").splitlines()
    return {line["title"]: line["answer"] for line in map(json.loads, lines)}


def record(release: str, answers: dict[str, Any]) -> None:
    """Overwrite the recorded answers."""
    rows = ({"title": title, "answer": answer} for title, answer in answers.items())
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    golden(release).write_text(text, encoding="utf-8")
