"""The client: producers and consumers that follow upstream's rules, for any RocketMQ.

    from rocketmq_emulator.client import Message, Producer, PullConsumer, PushConsumer

``instance`` (the parts that the clients of a process share) is imported by ``producer`` and
``consumer``, which never import each other.  A public name is imported at its first use, so
that a program loads only the modules that it uses.  This module also registers the functions
that make an instance's inner producer and producers of traces.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from rocketmq_emulator.client.instance import interfaces

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.allocation import (
        AVG,
        AVG_BY_CIRCLE,
        Strategy,
    )
    from rocketmq_emulator.client.consumer.group.listeners import ConsumeContext, ConsumeResult
    from rocketmq_emulator.client.consumer.group.pull_kernel import PullResult, PullStatus
    from rocketmq_emulator.client.consumer.pull.lite_pull_consumer import LitePullConsumer
    from rocketmq_emulator.client.consumer.pull.pull_consumer import PullConsumer
    from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.instance.process import ClientProcess, run
    from rocketmq_emulator.client.producer.producer import Producer
    from rocketmq_emulator.client.producer.publish_info import by_hash, by_random
    from rocketmq_emulator.client.producer.requests import Requesting
    from rocketmq_emulator.client.producer.send_attempts import Sending
    from rocketmq_emulator.client.producer.send_kernel import SendResult, SendStatus
    from rocketmq_emulator.client.producer.transaction_producer import TransactionProducer
    from rocketmq_emulator.client.producer.transactions import (
        LocalTransactionState,
        TransactionListener,
        TransactionSendResult,
    )
    from rocketmq_emulator.client.settings.config import (
        ClientConfig,
        ConsumerConfig,
        LitePullConsumerConfig,
        ProducerConfig,
        PullConsumerConfig,
        PushConsumerConfig,
        TransactionProducerConfig,
    )
    from rocketmq_emulator.errors.call_errors import (
        BadArgument,
        BadSelector,
        BadSubscription,
        BrokerRefused,
        ClientError,
        ClientErrorCode,
        ClientMisuse,
        GroupCallRefused,
        GroupCallRefusedByBroker,
        GroupCallUnanswered,
        GroupTaken,
        MaybeStored,
        MessageIllegal,
        NoBrokerAnswered,
        NoNameServer,
        NoRoute,
        NotARequest,
        NotRunning,
        NotStored,
        NotUnderTrio,
        RecallFailed,
        RecallRefused,
        RecallUnanswered,
        RequesterGone,
        RequestUnanswered,
        SendError,
        SendNotWritten,
        TooManySends,
    )
    from rocketmq_emulator.protocol.allocation import CannotAllocate
    from rocketmq_emulator.protocol.error_families import (
        CannotDoHere,
        DamagedData,
        Misuse,
        NobodyAnswered,
        RefusedByServer,
    )
    from rocketmq_emulator.protocol.messages.message import Message, MessageExt
    from rocketmq_emulator.protocol.messages.subscription import by_sql
    from rocketmq_emulator.protocol.queues import MessageQueue

__all__ = [
    "AVG",
    "AVG_BY_CIRCLE",
    "BadArgument",
    "BadSelector",
    "BadSubscription",
    "BrokerRefused",
    "CannotAllocate",
    "CannotDoHere",
    "ClientConfig",
    "ClientError",
    "ClientErrorCode",
    "ClientMisuse",
    "ClientProcess",
    "ConsumeContext",
    "ConsumeResult",
    "ConsumerConfig",
    "DamagedData",
    "GroupCallRefused",
    "GroupCallRefusedByBroker",
    "GroupCallUnanswered",
    "GroupTaken",
    "LitePullConsumer",
    "LitePullConsumerConfig",
    "LocalTransactionState",
    "MaybeStored",
    "Message",
    "MessageExt",
    "MessageIllegal",
    "MessageQueue",
    "Misuse",
    "NoBrokerAnswered",
    "NoNameServer",
    "NoRoute",
    "NobodyAnswered",
    "NotARequest",
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
    "RecallRefused",
    "RecallUnanswered",
    "RefusedByServer",
    "RequestUnanswered",
    "RequesterGone",
    "Requesting",
    "SendError",
    "SendNotWritten",
    "SendResult",
    "SendStatus",
    "Sending",
    "Strategy",
    "TooManySends",
    "TransactionListener",
    "TransactionProducer",
    "TransactionProducerConfig",
    "TransactionSendResult",
    "by_hash",
    "by_random",
    "by_sql",
    "run",
]

_NAMES_OF = {  # by the module that has them
    "rocketmq_emulator.client.settings.config": (
        "ClientConfig",
        "ConsumerConfig",
        "LitePullConsumerConfig",
        "ProducerConfig",
        "PullConsumerConfig",
        "PushConsumerConfig",
        "TransactionProducerConfig",
    ),
    "rocketmq_emulator.client.consumer.group.allocation": (
        "AVG",
        "AVG_BY_CIRCLE",
        "Strategy",
    ),
    "rocketmq_emulator.client.consumer.group.listeners": (
        "ConsumeContext",
        "ConsumeResult",
    ),
    "rocketmq_emulator.client.consumer.pull.lite_pull_consumer": ("LitePullConsumer",),
    "rocketmq_emulator.client.consumer.pull.pull_consumer": ("PullConsumer",),
    "rocketmq_emulator.client.consumer.group.pull_kernel": (
        "PullResult",
        "PullStatus",
    ),
    "rocketmq_emulator.client.consumer.push.push_consumer": ("PushConsumer",),
    "rocketmq_emulator.client.instance.process": (
        "ClientProcess",
        "run",
    ),
    "rocketmq_emulator.client.producer.requests": ("Requesting",),
    "rocketmq_emulator.client.producer.send_attempts": ("Sending",),
    "rocketmq_emulator.client.producer.producer": ("Producer",),
    "rocketmq_emulator.client.producer.publish_info": (
        "by_hash",
        "by_random",
    ),
    "rocketmq_emulator.client.producer.send_kernel": (
        "SendResult",
        "SendStatus",
    ),
    "rocketmq_emulator.client.producer.transaction_producer": ("TransactionProducer",),
    "rocketmq_emulator.client.producer.transactions": (
        "LocalTransactionState",
        "TransactionListener",
        "TransactionSendResult",
    ),
    "rocketmq_emulator.protocol.allocation": ("CannotAllocate",),
    "rocketmq_emulator.protocol.error_families": (
        "CannotDoHere",
        "DamagedData",
        "Misuse",
        "NobodyAnswered",
        "RefusedByServer",
    ),
    "rocketmq_emulator.protocol.messages.message": (
        "Message",
        "MessageExt",
    ),
    "rocketmq_emulator.protocol.messages.subscription": ("by_sql",),
    "rocketmq_emulator.protocol.queues": ("MessageQueue",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"rocketmq_emulator.client has no {name}")
    module = _MODULE_OF.get(name, "rocketmq_emulator.errors.call_errors")
    return getattr(importlib.import_module(module), name)


def _inner_producer(instance: ClientInstance) -> interfaces.InnerProducer:
    # Imported with the first instance: a process without instances needs no producer.
    from rocketmq_emulator.client.producer.send_pipeline import inner_producer  # noqa: PLC0415

    return inner_producer(instance)


def _trace_producer(instance: ClientInstance, group: str) -> object:
    from rocketmq_emulator.client.producer.send_pipeline import trace_producer  # noqa: PLC0415

    return trace_producer(instance, group)


interfaces.make_inner_producer = _inner_producer
interfaces.make_trace_producer = _trace_producer
