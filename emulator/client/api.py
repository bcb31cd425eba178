"""The names an application imports, all of them also to be had from ``emulator.client``."""

from emulator.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from emulator.client.consumer.allocation import AVG, AVG_BY_CIRCLE
from emulator.client.consumer.listening import ConsumeContext, ConsumeResult
from emulator.client.consumer.push_config import PushConsumerConfig
from emulator.client.consumer.push_consumer import PushConsumer
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
from emulator.client.instance.process import ClientProcess
from emulator.client.producer.async_sends import Sending
from emulator.client.producer.producer import Producer
from emulator.client.producer.selectors import by_chance, by_hash
from emulator.client.producer.send_result import SendResult, SendStatus
from protocol.message import Message, MessageExt
from protocol.queues import MessageQueue

__all__ = [
    "AVG",
    "AVG_BY_CIRCLE",
    "BadSelector",
    "BrokerRefused",
    "ClientConfig",
    "ClientError",
    "ClientProcess",
    "ConsumeContext",
    "ConsumeResult",
    "ConsumerConfig",
    "GroupTaken",
    "MaybeStored",
    "Message",
    "MessageExt",
    "MessageIllegal",
    "MessageQueue",
    "Misuse",
    "NoNameServer",
    "NoRoute",
    "NotRunning",
    "NotStored",
    "Producer",
    "ProducerConfig",
    "PushConsumer",
    "PushConsumerConfig",
    "SendError",
    "SendResult",
    "SendStatus",
    "Sending",
    "TooManySends",
    "by_chance",
    "by_hash",
]
