"""The public face: what users import, and nothing that does anything.

    from rocketmq_emulator import Cluster, Message, Producer, PushConsumer

The packages ``emulator`` and ``protocol`` below it are the house; these names are its door.
A name is loaded at its first use: who sends messages never loads a broker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rocketmq_emulator import _shadows

if TYPE_CHECKING:
    from emulator.client import (
        AVG,
        AVG_BY_CIRCLE,
        BadArgument,
        BadSelector,
        BadSubscription,
        BrokerRefused,
        CannotAllocate,
        ClientConfig,
        ClientError,
        ClientErrorCode,
        ClientProcess,
        ConsumeContext,
        ConsumerConfig,
        ConsumeResult,
        GroupCallRefused,
        GroupTaken,
        LitePullConsumer,
        LitePullConsumerConfig,
        MaybeStored,
        Message,
        MessageExt,
        MessageIllegal,
        MessageQueue,
        Misuse,
        NoNameServer,
        NoRoute,
        NotRunning,
        NotStored,
        NotUnderTrio,
        Producer,
        ProducerConfig,
        PullConsumer,
        PullConsumerConfig,
        PullResult,
        PullStatus,
        PushConsumer,
        PushConsumerConfig,
        RecallFailed,
        SendError,
        Sending,
        SendResult,
        SendStatus,
        Strategy,
        TooManySends,
        by_chance,
        by_hash,
        run,
    )
    from emulator.cluster.embedded import EmbeddedCluster as Cluster
    from emulator.cluster.node_process import NodeDied
    from emulator.cluster.node_view import NodeView
    from emulator.cluster.processes import ProcessCluster
    from emulator.cluster.reply_rules import ReplyRuleRefused
    from emulator.cluster.spec import ClusterSpec
    from emulator.cluster.world import CannotDo, ClusterEnded, NotReady, NotStarted, UnknownNode
    from protocol.bodies.reply_rules import ReplyRule, ReplyRuleState
    from protocol.codes import RequestCode, ResponseCode

    __version__: str

__all__ = [
    "AVG",
    "AVG_BY_CIRCLE",
    "BadArgument",
    "BadSelector",
    "BadSubscription",
    "BrokerRefused",
    "CannotAllocate",
    "CannotDo",
    "ClientConfig",
    "ClientError",
    "ClientErrorCode",
    "ClientProcess",
    "Cluster",
    "ClusterEnded",
    "ClusterSpec",
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
    "NodeDied",
    "NodeView",
    "NotReady",
    "NotRunning",
    "NotStarted",
    "NotStored",
    "NotUnderTrio",
    "ProcessCluster",
    "Producer",
    "ProducerConfig",
    "PullConsumer",
    "PullConsumerConfig",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushConsumerConfig",
    "RecallFailed",
    "ReplyRule",
    "ReplyRuleRefused",
    "ReplyRuleState",
    "RequestCode",
    "ResponseCode",
    "SendError",
    "SendResult",
    "SendStatus",
    "Sending",
    "Strategy",
    "TooManySends",
    "UnknownNode",
    "__version__",
    "by_chance",
    "by_hash",
    "run",
]

_NAMES_OF = {  # by the module that has them; all others are of emulator.client
    "emulator.cluster.node_process": ("NodeDied",),
    "emulator.cluster.node_view": ("NodeView",),
    "emulator.cluster.processes": ("ProcessCluster",),
    "emulator.cluster.reply_rules": ("ReplyRuleRefused",),
    "emulator.cluster.spec": ("ClusterSpec",),
    "emulator.cluster.world": (
        "CannotDo",
        "ClusterEnded",
        "NotReady",
        "NotStarted",
        "UnknownNode",
    ),
    "protocol.bodies.reply_rules": ("ReplyRule", "ReplyRuleState"),
    "protocol.codes": ("RequestCode", "ResponseCode"),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

_shadows.check()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"rocketmq_emulator has no {name}")
    if name == "__version__":
        value = importlib.import_module("importlib.metadata").version("rocketmq-emulator")
    elif name == "Cluster":
        value = importlib.import_module("emulator.cluster.embedded").EmbeddedCluster
    else:
        module = importlib.import_module(_MODULE_OF.get(name, "emulator.client"))
        value = getattr(module, name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
