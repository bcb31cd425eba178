"""How often a message may fail, and what is asked of a group before it fails again.

A consumer gives a message back, or publishes it to its retry topic itself: both ways
end in the dead letters after the same number of times.

Upstream: SendMessageProcessor.asyncConsumerSendMsgBack, handleRetryAndDLQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.net.results import Call, Refusal
from protocol.codes import ResponseCode

if TYPE_CHECKING:
    from emulator.broker.broker import Broker
    from protocol.bodies.groups import SubscriptionGroupConfig
    from protocol.requests.sending import ConsumerSendMsgBackRequest, SendRequest

CLIENT_MAX_RECONSUME_SINCE = 121  # V3_4_9: older clients cannot say how often they retry


def group_that_retries(
    broker: Broker, name: str, now_ms: int, *, by: str
) -> SubscriptionGroupConfig:
    """The group, new if need be.  Raises ``Refusal`` if there is none and none may be made."""
    config = broker.groups.find(name, now_ms, by=by)
    if config is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}"
        )
    return config


def times_max(
    config: SubscriptionGroupConfig, call: Call[SendRequest | ConsumerSendMsgBackRequest]
) -> int:
    """After how many failures a message is dead: the client's word, else the group's."""
    asked = call.request.max_reconsume_times
    can_say = call.command.version >= CLIENT_MAX_RECONSUME_SINCE
    return asked if asked is not None and can_say else config.retry_max_times
