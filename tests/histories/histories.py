"""The histories: what happens to a few messages, as facts that need no ids, times and addresses.

A history waits for events and never for time: that something does *not* happen is shown by a later
message.  ``CALM`` ones run at the same time; then the ``OUTAGES``, in which the broker is
killed (kill -9) and started again with its store and port.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import trio

from rocketmq_emulator.admin.calls import NotFound, admin_over_tcp
from rocketmq_emulator.admin.message_traces import LifeStep, MessageLife, find_life
from tests.histories.history_run import (
    COMMIT,
    ROLLBACK,
    UNKNOW,
    HistoryProducer,
    HistoryRun,
    Meeting,
)

LONG_MS = 100_000  # for a reply that is to come
SHORT_MS = 5_000  # for one that does not: long enough to store the request on a busy machine
SELDOM_MS = 600_000
TRACES_S_MAX = 40.0

Facts: TypeAlias = dict[str, Any]
History: TypeAlias = Callable[[HistoryRun, Meeting], Facts]

# Traces that a client does not write, by client and release of the broker; "" is every release.
UNTRACED = MappingProxyType(
    {
        ("java-5.4.0", "4.9.7"): ("consumed",),  # without MSG_REGION, which only 5.x stores
        ("go-2.1.2", ""): ("transaction",),
    }
)


def commit(run: HistoryRun, _meeting: Meeting) -> Facts:
    """A half message is not consumed before its commit, and is after it."""
    payer, plain, reader = run.producer("payer", checks={}), run.producer(), run.consumer()
    sending = payer.begin("paid")
    plain.send_one("plain")
    reader.wait("plain")
    before = reader.found()
    payer.conclude("paid", COMMIT)
    sent = sending.wait()
    reader.wait("paid")
    return {
        "consumed before the commit": before,
        "sent": [sent["status"], sent["state"]],
        "consumed": reader.found(),
    }


def rollback(run: HistoryRun, _meeting: Meeting) -> Facts:
    """A message that is rolled back is not consumed; a later one is."""
    payer, reader = run.producer("payer", checks={}), run.consumer()
    sent = [payer.transact("refused", ROLLBACK), payer.transact("later", COMMIT)]
    reader.wait("later")
    return {"sent": sent, "consumed": reader.found()}


def unknown(run: HistoryRun, _meeting: Meeting) -> Facts:
    """The broker asks about messages of unknown state; one is committed, one rolled back.

    It asks about a later one in a later check, in which it would ask again about those before.
    """
    payer = run.producer("payer", checks={"yes": COMMIT, "no": ROLLBACK, "later": COMMIT})
    reader = run.consumer()
    sent = [payer.transact(key, UNKNOW) for key in ("yes", "no")]
    payer.wait_checked("yes")
    payer.wait_checked("no")
    reader.wait("yes")
    payer.transact("later", UNKNOW)
    reader.wait("later")
    asked = payer.checks("yes", "no", "later")
    return {"sent": sent, "asked": asked, "consumed": reader.found()}


def successor(run: HistoryRun, meeting: Meeting) -> Facts:
    """A producer is killed between half and end; another one of its group is asked."""
    killed = run.producer_to_kill("first", group="payers", checks={})
    reader = run.consumer()
    killed.begin("paid")
    meeting.arrive()
    second = run.producer("second", group="payers", checks={"paid": COMMIT})
    second.transact("later", COMMIT)  # since 5.1.1 a producer registers when it has sent
    second.wait_checked("paid")
    reader.wait("paid", "later")
    return {"asked": second.checks("paid"), "consumed": sorted(reader.found())}


def filtered_retry(run: HistoryRun, _meeting: Meeting) -> Facts:
    """A filter by SQL92: only what matches is consumed, also when it comes again."""
    plain = run.producer()
    reader = run.consumer(sql="price > 5", refuse={"dear": 1})
    for key, price in (("cheap", 1), ("dear", 10), ("dearest", 20)):
        plain.send_one(key, properties={"price": str(price)})
    reader.wait("dear", "dearest")
    plain.send_one("last", properties={"price": "30"})
    reader.wait("last")
    return {"consumed": sorted(reader.found())}


def slow_reply(run: HistoryRun, _meeting: Meeting) -> Facts:
    """A late reply has no effect; one that takes as long arrives if the requester waits longer."""
    guest, cook, kitchen = run.producer("guest"), run.producer("cook"), run.consumer("kitchen")
    first = _answered(guest, cook, run)
    patient, hasty = guest.request("patient", LONG_MS), guest.request("hasty", SHORT_MS)
    kitchen.wait("patient", "hasty")
    ends = {"hasty": hasty.wait_kind()}
    replies = {key: cook.reply(key) for key in ("hasty", "patient")}
    ends["patient"] = patient.wait_kind()
    return {**first, "replies": replies, "requests": ends}


def traced(run: HistoryRun, _meeting: Meeting) -> Facts:
    """What the traces say about a message, and about one of a transaction."""
    payer = run.producer("payer", checks={}, trace=True)
    plain, reader = run.producer(trace=True), run.consumer(trace=True)
    plain.send_one("plain")
    payer.transact("paid", COMMIT)
    reader.wait("plain", "paid")
    wanted = {"plain": {"sent", "consumed"}, "paid": {"sent", "transaction", "consumed"}}
    absent = {*UNTRACED.get((run.client.name, run.release), ())}
    absent |= {*UNTRACED.get((run.client.name, ""), ())}
    ids = plain.ids | payer.ids
    for key, msg_id in ids.items():
        _wait_traced(run.cluster.namesrv, msg_id, wanted[key] - absent)
    run.close()  # clients that stop send their last traces, if there are more than wanted
    return {
        key: sorted(map(_shown, _steps(run.cluster.namesrv, msg_id)))
        for key, msg_id in ids.items()
    }


def broker_killed(run: HistoryRun, meeting: Meeting) -> Facts:
    """The broker is killed between half and end: an end and a check afterwards find both."""
    plain = run.producer()
    first = run.producer("first", group="payers", checks={"asked": COMMIT})
    sending = {key: first.begin(key) for key in ("ended", "asked")}
    plain.send_one("before")
    meeting.arrive()
    first.conclude("ended", COMMIT)
    first.conclude("asked", UNKNOW)
    sent = {key: each.wait()["state"] for key, each in sending.items()}
    second = run.producer("second", group="payers", checks={"asked": COMMIT})
    second.transact("later", COMMIT)
    reader = run.consumer()  # from the first message on: "before" has to be in the store
    reader.wait("before", "ended", "asked", "later")
    asked = {*first.checks("asked")["asked"], *second.checks("asked")["asked"]}
    return {"sent": sent, "asked": sorted(asked), "consumed": sorted(reader.found())}


def lost_reply(run: HistoryRun, meeting: Meeting) -> Facts:
    """The broker is started again between a request and its reply: it knows no requester.

    The requester sends no heartbeat of its own in that time.
    """
    guest, cook = run.producer("guest", heartbeat_ms=SELDOM_MS), run.producer("cook")
    kitchen = run.consumer("kitchen")
    asking = guest.request("lost", SHORT_MS)
    kitchen.wait("lost")
    meeting.arrive()
    reply = cook.reply("lost")
    lost = {"lost reply": reply, "lost request": asking.wait_kind()}
    return {**lost, **_answered(guest, cook, run)}


def _answered(guest: HistoryProducer, cook: HistoryProducer, run: HistoryRun) -> Facts:
    """A request that creates its topic, and its reply.

    Clients send a heartbeat before a request for a topic that they (Java) or the NameServer (Go)
    do not know: so the broker knows the requester when the reply comes.
    """
    asking = guest.request("answered", LONG_MS, run.new_topic)
    run.wait_routed(run.new_topic)
    run.consumer("second-kitchen", topic=run.new_topic).wait("answered")
    return {"reply": cook.reply("answered"), "request": asking.wait_kind()}


def _wait_traced(namesrv: str, msg_id: str, wanted: set[str]) -> None:
    deadline = time.monotonic() + TRACES_S_MAX
    while not (found := {step.kind for step in _steps(namesrv, msg_id)}) >= wanted:
        assert time.monotonic() < deadline, f"the traces are {found}, not {wanted}"
        time.sleep(0.2)


def _steps(namesrv: str, msg_id: str) -> list[LifeStep]:
    """The steps in the traces of a message whose ends are there, too."""
    life = trio.run(_life_now, namesrv, msg_id)
    return [] if life is None else [step for step in life.steps if step.outcome]


async def _life_now(namesrv: str, msg_id: str) -> MessageLife | None:
    async with admin_over_tcp(namesrv) as admin:
        try:
            return await find_life(admin, msg_id)
        except NotFound:
            return None


def _shown(step: LifeStep) -> str:
    details = [step.message_type, f"delivery {step.delivery}" if step.delivery else ""]
    return ", ".join(filter(None, [step.kind, step.outcome, *details]))


CALM: Mapping[str, History] = {
    "commit": commit,
    "rollback": rollback,
    "unknown": unknown,
    "successor": successor,
    "filtered-retry": filtered_retry,
    "slow-reply": slow_reply,
    "traced": traced,
}
OUTAGES: Mapping[str, History] = {"broker-killed": broker_killed, "lost-reply": lost_reply}
HISTORIES = {**CALM, **OUTAGES}
