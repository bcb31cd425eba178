"""Sentences of facts about slaves that act as a master, and about returning brokers.

``server_sentences`` joins this table with its own.  The subject is the node that recorded the
fact, so a sentence begins with a verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    Fact,
    HalfMessageSkipped,
    MessageEscaped,
    MessageNotEscaped,
    MetadataTakenBack,
    MinBrokerChanged,
    PreOnlineBegan,
    PreOnlineEnded,
    PreOnlineWaiting,
)


def _min_changed(fact: MinBrokerChanged, *_: object) -> str:
    lost = f"; {fact.offline_address} is lost" if fact.offline_address else ""
    return f"noticed that broker {fact.min_broker_id} at {fact.address} has the smallest id{lost}"


def _taken_back(fact: MetadataTakenBack, *_: object) -> str:
    if fact.is_taken:
        return f"took the {fact.table} of the slave {fact.address}, which are not older"
    return f"kept its own {fact.table}, which are newer than those of the slave {fact.address}"


ACTING_MASTER_SENTENCES: Mapping[type[Fact], Callable[..., str]] = {
    MinBrokerChanged: _min_changed,
    ActingMasterBegan: lambda fact, *_: (
        f"acts as the master, as broker {fact.broker_id}: it delivers and checks messages, and "
        "accepts none"
    ),
    ActingMasterEnded: lambda fact, *_: (
        f"no longer acts as the master: broker {fact.min_broker_id} has a smaller id"
    ),
    MessageEscaped: lambda fact, *_: (
        f"sent {fact.uniq_key or 'a message'}, due in {fact.queue} ({fact.service}), to "
        f"{fact.to_broker}:{fact.to_queue_id}: a slave may not store it"
    ),
    MessageNotEscaped: lambda fact, *_: (
        f"could not send {fact.uniq_key or 'a message'} of {fact.queue} ({fact.service}) to "
        f"another broker: {fact.reason}"
    ),
    HalfMessageSkipped: lambda fact, *_: (
        f"skipped the half message {fact.uniq_key} of {fact.queue}, at {fact.half_offset}, after "
        f"{fact.tries} tries to send it to another broker: {fact.reason}"
    ),
    PreOnlineBegan: lambda fact, *_: (
        f"started isolated, as broker {fact.broker_id}: it prepares before it registers"
    ),
    PreOnlineWaiting: lambda fact, *_: (
        f"waits before it registers, for {fact.step} with {fact.address}: {fact.reason}"
    ),
    MetadataTakenBack: _taken_back,
    PreOnlineEnded: lambda fact, *_: (
        f"is online as broker {fact.broker_id} after {fact.took_ms:,} ms; the smallest id is "
        f"{fact.min_broker_id}"
    ),
}
