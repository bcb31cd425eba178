"""The names an application imports to produce.  Consumers have theirs beside."""

from emulator.client.async_sends import Sending
from emulator.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from emulator.client.errors import (
    BadSelector,
    BrokerRefused,
    ClientError,
    GroupTaken,
    MaybeStored,
    MessageIllegal,
    Misuse,
    NoNameServer,
    NoRoute,
    NotRunning,
    NotStored,
    SendError,
    TooManySends,
)
from emulator.client.process import ClientProcess
from emulator.client.producer import Producer
from emulator.client.selectors import by_chance, by_hash
from emulator.client.send_result import SendResult, SendStatus
from protocol.message import Message
from protocol.queues import MessageQueue

__all__ = [
    "BadSelector",
    "BrokerRefused",
    "ClientConfig",
    "ClientError",
    "ClientProcess",
    "ConsumerConfig",
    "GroupTaken",
    "MaybeStored",
    "Message",
    "MessageIllegal",
    "MessageQueue",
    "Misuse",
    "NoNameServer",
    "NoRoute",
    "NotRunning",
    "NotStored",
    "Producer",
    "ProducerConfig",
    "SendError",
    "SendResult",
    "SendStatus",
    "Sending",
    "TooManySends",
    "by_chance",
    "by_hash",
]
