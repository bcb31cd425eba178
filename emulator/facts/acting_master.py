"""Facts of slaves that act as a master, and of brokers that prepare before they register."""

from __future__ import annotations

from typing import ClassVar

from rocketmq_emulator.facts.fact import Fact, Queue, Severity

# A slave that acts as the master ------------------------------------------------------


class MinBrokerChanged(Fact, frozen=True):
    """A slave has noticed that another broker has the smallest id of its broker name."""

    min_broker_id: int  # the smallest id that is registered: 0 is the master
    address: str  # of that broker
    offline_address: str  # of the broker that had it before, and is lost; empty: none is


class ActingMasterBegan(Fact, frozen=True):
    """A slave has the smallest id: it delivers and checks messages instead of its master.

    It stays a slave: it accepts no message.
    """

    severity: ClassVar[Severity] = "warning"

    broker_id: int


class ActingMasterEnded(Fact, frozen=True):
    """A slave has no longer the smallest id: it delivers and checks no messages now."""

    broker_id: int
    min_broker_id: int  # the smallest id that is registered: 0 is the master


class MessageEscaped(Fact, frozen=True):
    """An acting master sent a message, which it may not store itself, to another broker."""

    queue: Queue  # to which it was sent at first
    to_broker: str  # the name of the other broker
    to_queue_id: int  # of the same topic there
    service: str  # that had to store it: "delay level", "timer" or "transaction check"
    uniq_key: str


class MessageNotEscaped(Fact, frozen=True):
    """A message could not be sent to another broker: the first of consecutive failures.

    Delayed messages are tried again without end; the facts of timers and half messages record
    when they are given up.
    """

    severity: ClassVar[Severity] = "warning"

    queue: Queue  # to which it was sent at first
    service: str  # that had to store it: "delay level", "timer" or "transaction check"
    reason: str
    uniq_key: str


class HalfMessageSkipped(Fact, frozen=True):
    """A slave that acts as the master gave a half message up: nobody is asked for its outcome.

    It is lost unless its producer still ends it, or the master comes back with older progress.
    """

    severity: ClassVar[Severity] = "error"
    advice: ClassVar[str] = "with remote_escape and a second master it is sent there instead"

    queue: Queue  # to which it was sent
    half_offset: int  # its offset in the half topic
    tries: int  # to send it to another broker
    reason: str
    uniq_key: str


# A broker that prepares ---------------------------------------------------------------


class PreOnlineBegan(Fact, frozen=True):
    """A broker started isolated: it registers when it has prepared with the others of its name."""

    broker_id: int


class PreOnlineWaiting(Fact, frozen=True):
    """A step of the preparation failed, and is tried again: the first of consecutive failures."""

    address: str  # of the broker or NameServer that it needs
    step: str  # as in "HA connection"
    reason: str


class MetadataTakenBack(Fact, frozen=True):
    """A returning master compared one of its tables with that of a slave."""

    address: str  # of the slave
    table: str  # as in "consumer offsets"
    is_taken: bool  # whether the slave's version is not older, so its table replaced the own one


class PreOnlineEnded(Fact, frozen=True):
    """A broker that started isolated registers, and serves, from now on."""

    broker_id: int
    min_broker_id: int  # the smallest id that is registered: 0 is the master
    took_ms: int  # since it started
