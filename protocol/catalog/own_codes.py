"""What only this emulator answers: codes 9000 to 9999, which no RocketMQ knows.

They are answered in every release, by a server that was started with
``reply_rules_allowed``; others refuse them with NO_PERMISSION.  GET_BROKER_OVERVIEW is
answered by every broker: it only tells what other calls tell, too.
"""

from __future__ import annotations

from protocol.bodies.broker_overview import BrokerOverview
from protocol.bodies.own import AdvancedTime, AdvanceTime, ClockSkew, FactsWanted
from protocol.bodies.pools import BusyPool, BusyPoolState
from protocol.bodies.reply_rules import (
    RemovedReplyRules,
    RemoveReplyRule,
    ReplyRule,
    ReplyRuleId,
    ReplyRuleList,
)
from protocol.catalog.page import broker, nameserver_or_broker

SET_REPLY_RULE = nameserver_or_broker(
    "SET_REPLY_RULE", request_body=ReplyRule, reply_body=ReplyRuleId
)
LIST_REPLY_RULES = nameserver_or_broker("LIST_REPLY_RULES", reply_body=ReplyRuleList)
REMOVE_REPLY_RULE = nameserver_or_broker(
    "REMOVE_REPLY_RULE", request_body=RemoveReplyRule, reply_body=RemovedReplyRules
)
SET_CLOCK_SKEW = nameserver_or_broker("SET_CLOCK_SKEW", request_body=ClockSkew)
FETCH_FACTS = nameserver_or_broker("FETCH_FACTS", request_body=FactsWanted)
RESET_SERVER = nameserver_or_broker("RESET_SERVER")
SET_BUSY_POOL = broker("SET_BUSY_POOL", request_body=BusyPool, reply_body=BusyPoolState)
ADVANCE_TIME = broker("ADVANCE_TIME", request_body=AdvanceTime, reply_body=AdvancedTime)
GET_BROKER_OVERVIEW = broker("GET_BROKER_OVERVIEW", reply_body=BrokerOverview)
