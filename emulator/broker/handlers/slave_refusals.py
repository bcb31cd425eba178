"""Requests that a slave refuses before their handlers are called.

A slave of 5.x rejects every send, and pulls unless ``slave_read`` is on, as a busy broker does.
If it may act as the master, sends come to its store, which refuses them, as in 4.x.
One of 4.x passes both on: it answers pulls, and its store refuses sends.  Changes of topics and
groups are refused by some releases; elsewhere they last until the next copy of the master's
tables.  Refusals that come after checks of the request are in the handlers: those of transactions,
recalls and resets.

Upstream: NettyRemotingAbstract.processRequestCommand, SendMessageProcessor.rejectRequest,
PullMessageProcessor.rejectRequest (5.x), AdminBrokerProcessor.validateSlave.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketmq_emulator.facts import SendRefused
from rocketmq_emulator.net.dispatch import RefusesUnread
from rocketmq_emulator.net.results import Call, Handler, Reply, Result
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.settings.releases import SLAVES_REFUSE_CHANGES, SLAVES_REJECT_REQUESTS

if TYPE_CHECKING:
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.net.dispatch import Table
    from rocketmq_emulator.settings.config import BrokerConfig
    from rocketmq_emulator.settings.releases import Release

REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"
NO_CHANGES = (
    "Can't modify topic or subscription group from slave broker, please execute it from master "
    "broker."
)
NO_MASTER = "no master available along with {host}"
SENDS = frozenset(
    {
        catalog.SEND_MESSAGE.code,
        catalog.SEND_MESSAGE_V2.code,
        catalog.SEND_BATCH_MESSAGE.code,
    }
)


class SlaveRefusal(NamedTuple):
    """Requests with one of ``codes`` are answered ``response_code``.

    That is so in the releases that ``known_in`` names, and while ``applies`` to the settings.
    With ``unread`` their headers are not read before.
    """

    codes: frozenset[int]
    response_code: int
    remark: str
    known_in: Callable[[Release], bool]
    applies: Callable[[BrokerConfig], bool] = lambda _config: True
    unread: bool = False


SLAVE_REFUSALS = (
    SlaveRefusal(
        frozenset({catalog.CONSUMER_SEND_MSG_BACK.code}),
        ResponseCode.SYSTEM_ERROR,
        NO_MASTER,
        lambda release: release >= SLAVES_REJECT_REQUESTS,
        lambda config: config.slave_acting_master,
    ),
    SlaveRefusal(
        SENDS | {catalog.CONSUMER_SEND_MSG_BACK.code},
        ResponseCode.SYSTEM_BUSY,
        REJECTED,
        lambda release: release >= SLAVES_REJECT_REQUESTS,
        lambda config: not config.slave_acting_master,
        unread=True,
    ),
    SlaveRefusal(
        frozenset({catalog.PULL_MESSAGE.code, catalog.LITE_PULL_MESSAGE.code}),
        ResponseCode.SYSTEM_BUSY,
        REJECTED,
        lambda release: release >= SLAVES_REJECT_REQUESTS,
        lambda config: not config.slave_read,
        unread=True,
    ),
    SlaveRefusal(
        frozenset(
            {
                catalog.UPDATE_AND_CREATE_TOPIC.code,
                catalog.DELETE_TOPIC_IN_BROKER.code,
                catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP.code,
                catalog.DELETE_SUBSCRIPTIONGROUP.code,
            }
        ),
        ResponseCode.SYSTEM_ERROR,
        NO_CHANGES,
        SLAVES_REFUSE_CHANGES.holds,
    ),
)


def with_slave_refusals(table: Table, broker: Broker) -> Table:
    """*table*, but a slave's handlers of refused codes are called only while they may be.

    A controller may make the broker a slave, so the role is looked at in each call then; the
    table of a master without a controller stays as it is.
    """
    if not (broker.config.is_slave or broker.config.enable_controller_mode):
        return table
    guarded = dict(table)
    for refusal in SLAVE_REFUSALS:
        if refusal.known_in(broker.release):
            for code in refusal.codes & table.keys():
                rpc, handler = guarded[code]
                handler = partial(_refuse_or_pass_on, broker, refusal, handler)
                if refusal.unread:
                    handler = RefusesUnread(handler, partial(_refused, broker, refusal))
                guarded[code] = rpc, handler
    return guarded


def _refuse_or_pass_on(
    broker: Broker, refusal: SlaveRefusal, handler: Handler, call: Call[Any]
) -> Result:
    reply = _refused(broker, refusal)
    if reply is None:
        return handler(call)
    if call.command.code in SENDS and broker.wants(SendRefused):
        broker.note(SendRefused(call.request.topic or "", reply.code, reply.remark or ""))
    return reply


def _refused(broker: Broker, refusal: SlaveRefusal) -> Reply | None:
    """The answer of *refusal*; None while it does not apply."""
    if not (broker.config.is_slave and refusal.applies(broker.config)):
        return None
    return Reply(code=refusal.response_code, remark=refusal.remark.format(host=broker.host))
