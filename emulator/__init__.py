"""The public names that users import.

    from rocketmq_emulator import Cluster, Message, Producer, PushConsumer

A name is imported at its first use: a program that sends messages never imports a broker.

In a checkout this folder is ``emulator/``, and ``rocketmq_emulator`` is a link to it;
``protocol``, ``scenarios`` and ``pipeline`` in it are links to the folders beside it.  An
installed package has no links.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketmq_emulator.admin.calls import AdminRefused, ClusterUnreachable
    from rocketmq_emulator.client import (
        AVG,
        AVG_BY_CIRCLE,
        BadArgument,
        BadSelector,
        BadSubscription,
        BrokerRefused,
        CannotAllocate,
        CannotDoHere,
        ClientConfig,
        ClientError,
        ClientErrorCode,
        ClientMisuse,
        ClientProcess,
        ConsumeContext,
        ConsumerConfig,
        ConsumeResult,
        DamagedData,
        GroupCallRefused,
        GroupCallRefusedByBroker,
        GroupCallUnanswered,
        GroupTaken,
        LitePullConsumer,
        LitePullConsumerConfig,
        LocalTransactionState,
        MaybeStored,
        Message,
        MessageExt,
        MessageIllegal,
        MessageQueue,
        Misuse,
        NobodyAnswered,
        NoBrokerAnswered,
        NoNameServer,
        NoRoute,
        NotARequest,
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
        RecallRefused,
        RecallUnanswered,
        RefusedByServer,
        RequesterGone,
        Requesting,
        RequestUnanswered,
        SendError,
        Sending,
        SendNotWritten,
        SendResult,
        SendStatus,
        Strategy,
        TooManySends,
        TransactionListener,
        TransactionProducer,
        TransactionProducerConfig,
        TransactionSendResult,
        by_hash,
        by_random,
        by_sql,
        run,
    )
    from rocketmq_emulator.cluster.node_view import NodeView
    from rocketmq_emulator.cluster.reply_rules import ReplyRuleRefused
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.cluster.world import (
        CannotDo,
        ClusterEnded,
        MisusesFound,
        NotReady,
        NotStarted,
        UnknownNode,
    )
    from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
    from rocketmq_emulator.processes.node_process import NodeDied
    from rocketmq_emulator.protocol.bodies.extensions import ReplyRule, ReplyRuleState
    from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
    from rocketmq_emulator.testing.group_waits import NotBalanced, NotConsumed
    from rocketmq_emulator.testing.replica_waits import NotCopied, NotTakenOver
    from rocketmq_emulator.testing.rocketmq import RocketMQ as Cluster

    __version__: str

__all__ = [
    "AVG",
    "AVG_BY_CIRCLE",
    "AdminRefused",
    "BadArgument",
    "BadSelector",
    "BadSubscription",
    "BrokerRefused",
    "CannotAllocate",
    "CannotDo",
    "CannotDoHere",
    "ClientConfig",
    "ClientError",
    "ClientErrorCode",
    "ClientMisuse",
    "ClientProcess",
    "Cluster",
    "ClusterEnded",
    "ClusterSpec",
    "ClusterUnreachable",
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
    "MisusesFound",
    "NoBrokerAnswered",
    "NoNameServer",
    "NoRoute",
    "NobodyAnswered",
    "NodeDied",
    "NodeView",
    "NotARequest",
    "NotBalanced",
    "NotConsumed",
    "NotCopied",
    "NotReady",
    "NotRunning",
    "NotStarted",
    "NotStored",
    "NotTakenOver",
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
    "RecallRefused",
    "RecallUnanswered",
    "RefusedByServer",
    "ReplyRule",
    "ReplyRuleRefused",
    "ReplyRuleState",
    "RequestCode",
    "RequestUnanswered",
    "RequesterGone",
    "Requesting",
    "ResponseCode",
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
    "UnknownNode",
    "__version__",
    "by_hash",
    "by_random",
    "by_sql",
    "run",
]

_NAMES_OF = {  # by module; all others are of rocketmq_emulator.client
    "rocketmq_emulator.admin.calls": ("AdminRefused", "ClusterUnreachable"),
    "rocketmq_emulator.processes.node_process": ("NodeDied",),
    "rocketmq_emulator.cluster.node_view": ("NodeView",),
    "rocketmq_emulator.cluster.worlds.processes": ("ProcessCluster",),
    "rocketmq_emulator.cluster.reply_rules": ("ReplyRuleRefused",),
    "rocketmq_emulator.cluster.spec": ("ClusterSpec",),
    "rocketmq_emulator.cluster.world": (
        "CannotDo",
        "ClusterEnded",
        "MisusesFound",
        "NotReady",
        "NotStarted",
        "UnknownNode",
    ),
    "rocketmq_emulator.protocol.bodies.extensions": ("ReplyRule", "ReplyRuleState"),
    "rocketmq_emulator.protocol.codes": ("RequestCode", "ResponseCode"),
    "rocketmq_emulator.testing.group_waits": ("NotBalanced", "NotConsumed"),
    "rocketmq_emulator.testing.replica_waits": ("NotCopied", "NotTakenOver"),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

if __name__ != "rocketmq_emulator":  # imported as ``emulator`` in a checkout
    from rocketmq_emulator.text.old_names import new_name

    asked = next((word for word in sys.orig_argv if word.startswith(f"{__name__}.")), __name__)
    raise ImportError(
        f"import {new_name(asked) or new_name(__name__)} instead of {asked}", name=__name__
    )
if find_spec("rocketmq_emulator.protocol") is None:
    raise ImportError(
        "this copy of rocketmq_emulator has no folder protocol: it was unpacked or checked out "
        "without symbolic links.  Clone it with `git clone -c core.symlinks=true`, or install it "
        "from a wheel or an sdist, which have no links",
        name="rocketmq_emulator.protocol",
    )


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"rocketmq_emulator has no {name}")
    if name == "__version__":
        value = importlib.import_module("importlib.metadata").version("rocketmq-emulator")
    elif name == "Cluster":
        value = importlib.import_module("rocketmq_emulator.testing.rocketmq").RocketMQ
    else:
        module = importlib.import_module(_MODULE_OF.get(name, "rocketmq_emulator.client"))
        value = getattr(module, name)
    globals()[name] = value  # so that the next use does not call this
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
