"""The client: producers and consumers, by upstream's rules, for any RocketMQ.

    from emulator.client import Message, Producer, PullConsumer, PushConsumer

Three rooms: ``instance`` (what the clients of a process share) stands below ``producer``
and ``consumer``, which never import each other.  A name is imported at its first use,
so that parts can be imported one by one; and here, above all rooms, instances are given
their inner producer.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from emulator.client.instance import interfaces

if TYPE_CHECKING:
    from emulator.client.config import ClientConfig, ConsumerConfig, ProducerConfig
    from emulator.client.consumer.allocation import AVG, AVG_BY_CIRCLE, Strategy
    from emulator.client.consumer.listeners import ConsumeContext, ConsumeResult
    from emulator.client.consumer.lite_pull_consumer import LitePullConsumer
    from emulator.client.consumer.pull_config import LitePullConsumerConfig, PullConsumerConfig
    from emulator.client.consumer.pull_consumer import PullConsumer
    from emulator.client.consumer.pull_kernel import PullResult, PullStatus
    from emulator.client.consumer.push_config import PushConsumerConfig
    from emulator.client.consumer.push_consumer import PushConsumer
    from emulator.client.errors import (
        BadArgument,
        BadSelector,
        BadSubscription,
        BrokerRefused,
        ClientError,
        ClientErrorCode,
        GroupCallRefused,
        GroupTaken,
        MaybeStored,
        MessageIllegal,
        Misuse,
        NoNameServer,
        NoRoute,
        NotRunning,
        NotStored,
        NotUnderTrio,
        RecallFailed,
        SendError,
        TooManySends,
    )
    from emulator.client.instance.instance import ClientInstance
    from emulator.client.instance.process import ClientProcess
    from emulator.client.producer.async_send import Sending
    from emulator.client.producer.producer import Producer
    from emulator.client.producer.selectors import by_chance, by_hash
    from emulator.client.producer.send_result import SendResult, SendStatus
    from emulator.client.program import run
    from protocol.allocation import CannotAllocate
    from protocol.message import Message, MessageExt
    from protocol.queues import MessageQueue

__all__ = [
    "AVG",
    "AVG_BY_CIRCLE",
    "BadArgument",
    "BadSelector",
    "BadSubscription",
    "BrokerRefused",
    "CannotAllocate",
    "ClientConfig",
    "ClientError",
    "ClientErrorCode",
    "ClientProcess",
    "ConsumeContext",
    "ConsumeResult",
    "ConsumerConfig",
    "GroupCallRefused",
    "GroupTaken",
    "LitePullConsumer",
    "LitePullConsumerConfig",
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
    "NotUnderTrio",
    "Producer",
    "ProducerConfig",
    "PullConsumer",
    "PullConsumerConfig",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushConsumerConfig",
    "RecallFailed",
    "SendError",
    "SendResult",
    "SendStatus",
    "Sending",
    "Strategy",
    "TooManySends",
    "by_chance",
    "by_hash",
    "run",
]

_NAMES_OF = {  # by the module that has them
    "emulator.client.config": ("ClientConfig", "ConsumerConfig", "ProducerConfig"),
    "emulator.client.consumer.allocation": ("AVG", "AVG_BY_CIRCLE", "Strategy"),
    "emulator.client.consumer.listeners": ("ConsumeContext", "ConsumeResult"),
    "emulator.client.consumer.lite_pull_consumer": ("LitePullConsumer",),
    "emulator.client.consumer.pull_config": ("LitePullConsumerConfig", "PullConsumerConfig"),
    "emulator.client.consumer.pull_consumer": ("PullConsumer",),
    "emulator.client.consumer.pull_kernel": ("PullResult", "PullStatus"),
    "emulator.client.consumer.push_config": ("PushConsumerConfig",),
    "emulator.client.consumer.push_consumer": ("PushConsumer",),
    "emulator.client.instance.process": ("ClientProcess",),
    "emulator.client.producer.async_send": ("Sending",),
    "emulator.client.producer.producer": ("Producer",),
    "emulator.client.producer.selectors": ("by_chance", "by_hash"),
    "emulator.client.producer.send_result": ("SendResult", "SendStatus"),
    "emulator.client.program": ("run",),
    "protocol.allocation": ("CannotAllocate",),
    "protocol.message": ("Message", "MessageExt"),
    "protocol.queues": ("MessageQueue",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"emulator.client has no {name}")
    module = _MODULE_OF.get(name, "emulator.client.errors")
    return getattr(importlib.import_module(module), name)


def _inner_producer(instance: ClientInstance) -> interfaces.InnerProducer:
    # Not before the first instance: a process that has none needs no producer.
    from emulator.client.producer.send_pipeline import inner_producer  # noqa: PLC0415

    return inner_producer(instance)


interfaces.make_inner_producer = _inner_producer
