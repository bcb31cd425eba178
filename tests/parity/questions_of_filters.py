"""Requests of groups that filter by SQL92, valid and invalid, to a broker of their own.

The broker is started with upstream's defaults: the first requests find ``enablePropertyFilter``
off, one of them switches it on.  Messages have prices 3, 7 and 9, and one message has none.
"""

from __future__ import annotations

from typing import Any

from tests.parity.question import (
    UNIQ_KEY,
    Question,
    RequestCode,
    Step,
    plain,
    pull,
    send,
    topic_config,
    with_body,
)

_CHECK, _BEAT = RequestCode.CHECK_CLIENT_CONFIG, RequestCode.HEART_BEAT
_CHANGE = RequestCode.UPDATE_BROKER_CONFIG
_DEAR = "price > 5"
_RETRY = "%RETRY%s"


def _check(title: str, expression: Any, kind: Any = "SQL92", /, **changed: Any) -> Question:
    """CHECK_CLIENT_CONFIG; *changed* are members of the subscription, ... removes one."""
    data = {"topic": "Orders", "subString": expression, "expressionType": kind, **changed}
    data = {name: value for name, value in data.items() if value is not ...}
    return with_body(title, _CHECK, {"clientId": "c", "group": "g", "subscriptionData": data})


def _beat(title: str, expression: Any, version: Any = 1, kind: Any = "SQL92") -> Question:
    """HEART_BEAT of the group ``s``, which subscribes to Orders and to its retry topic."""
    given = {"topic": "Orders", "subString": expression, "subVersion": version}
    retry = {"topic": _RETRY, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {
        "groupName": "s",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [{**given, "expressionType": kind}, retry],
    }
    body = {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}
    return with_body(title, _BEAT, body)


def _pulled(title: str, version: Any = "1", topic: str = "Orders", /, **changed: Any) -> Question:
    """A pull of the group ``s`` by the subscription of its heartbeats."""
    fields = {"subscription": ..., "expressionType": ..., "sysFlag": "0", **changed}
    return pull(title, topic, consumerGroup="s", subVersion=version, **fields)


def _sql(title: str, expression: Any, /, **changed: Any) -> Question:
    """A pull that carries its expression."""
    return pull(title, subscription=expression, **{"expressionType": "SQL92", **changed})


def _price(price: int, topic: str = "Orders", more: str = "") -> Question:
    properties = f"{UNIQ_KEY}\x02price\x01{price}\x02TAGS\x01T{price}{more}"
    return send(f"a message of {topic} with the price {price}", topic, b"%d" % price, i=properties)


def _entries(title: str, group: str) -> Question:
    code = RequestCode.QUERY_CONSUME_QUEUE
    return plain(title, code, topic="Orders", queueId="0", index="0", count="2",
                 consumerGroup=group)  # fmt: skip


FILTERS: tuple[Step, ...] = (
    topic_config("a topic", "Orders", readQueueNums="1", writeQueueNums="1"),
    _price(3),
    _price(7),
    _price(9),
    send("a message without a price", "Orders", b"none"),
    _check("a filter is off", _DEAR),
    _check("a wrong expression while filters are off", "price >"),
    _check("an unknown type while filters are off", _DEAR, "X"),
    _sql("a carried expression while filters are off", _DEAR),
    _sql("a wrong carried expression while filters are off", "price >"),
    _beat("a group subscribes while filters are off", _DEAR),
    _pulled("the group pulls while filters are off"),
    with_body("filters are switched on", _CHANGE, b"enablePropertyFilter=true"),
    # CHECK_CLIENT_CONFIG
    _check("an expression", _DEAR),
    _check("tags", "TagA", "TAG"),
    _check("no type is tags", "price >", ...),
    _check("an empty type is tags", "price >", ""),
    _check("a type that is null is tags", "price >", None),
    _check("a type in small letters", _DEAR, "sql92"),
    _check("an unknown type", _DEAR, "X"),
    _check("a type that is a number", _DEAR, 92),
    _check("no expression", ...),
    _check("an expression that is null", None),
    _check("an empty expression", ""),
    _check("an expression of blanks", "  "),
    _check("an expression that is a number", 5),
    _check("an expression that is a list", ["a", "b"]),
    _check("an expression that ends too early", "price >"),
    _check("an expression without an operator", "5"),
    _check("an expression followed by words", "price > 5 words follow"),
    _check("a comparison of a boolean", "TRUE > 5"),
    _check("a comparison with NULL", "price > NULL"),
    _check("equal to NULL", "price = NULL"),
    _check("an IN of a number", "5 IN ('a')"),
    _check("an IN without parentheses", "price IN 'a'"),
    _check("an IN of numbers", "price IN (5)"),
    _check("a BETWEEN of which the end is missing", "price BETWEEN 1 AND"),
    _check("a BETWEEN whose end is first", "price BETWEEN 9 AND 1"),
    _check("a number out of range", "price > 9223372036854775808"),
    _check("a decimal 0.0", "price > 0.0"),
    _check("arithmetic", "price * 2 > 5"),
    _check("LIKE", "price LIKE '5'"),
    _check("an unclosed text", "name = 'a"),
    _check("a double quote", 'name = "a"'),
    _check("an exclamation mark", "price != 5"),
    _check("a statement of SQL", "price > 5; DROP TABLE orders"),
    _check("an open parenthesis", "(price > 5"),
    _check("a parenthesis too many", "price > 5)"),
    _check("CONTAINS", "name CONTAINS 'a'"),
    _check("signs of other scripts", "价格 > 5"),
    _check("class filter mode", _DEAR, classFilterMode=True),
    _check("no topic", _DEAR, topic=...),
    _check("a version that is a word", _DEAR, subVersion="x"),
    with_body("a check of nothing", _CHECK, b""),
    with_body("a check of words", _CHECK, b"hello"),
    with_body("a check of a list", _CHECK, [1, 2]),
    with_body("a check of null", _CHECK, b"null"),
    with_body("a check of no subscription", _CHECK, {"clientId": "c", "group": "g"}),
    with_body("a check of a null subscription", _CHECK, {"subscriptionData": None}),
    with_body("a check of a subscription that is a list", _CHECK, {"subscriptionData": [1]}),
    with_body("a check of an empty subscription", _CHECK, {"subscriptionData": {}}),
    # Pulls that carry their expression
    _sql("carried", _DEAR),
    _sql("one of those that match", _DEAR, maxMsgNums="1"),
    _sql("none matches", "price > 10"),
    _sql("a missing property", "price IS NULL"),
    _sql("a tag as a property", "TAGS = 'T7'"),
    _sql("a key as a property", "UNIQ_KEY IS NOT NULL"),
    _sql("a property that is no number", "TAGS > 5"),
    _sql("carried but wrong", "price >"),
    _sql("carried but no token", "price # 5"),
    _sql("carried but empty", ""),
    _sql("carried but absent", ...),
    _sql("carried with an unknown type", _DEAR, expressionType="X"),
    _sql("carried with the type in small letters", _DEAR, expressionType="sql92"),
    _sql("carried with an empty type", _DEAR, expressionType=""),
    _sql("carried without a type", _DEAR, expressionType=...),
    _sql("carried with a type that is null", _DEAR, expressionType=None),
    _sql("tags as an expression", "TagA || TagB"),
    _sql("carried from the end", _DEAR, queueOffset="99"),
    # Groups that subscribe by an expression
    _pulled("the group pulls"),
    _pulled("the group pulls with news", "2"),
    _pulled("the group pulls without a version", ...),
    _pulled("the group pulls one", maxMsgNums="1"),
    _pulled("nothing else matches", queueOffset="3"),
    _beat("an older version", "price < 5", 0),
    _pulled("the older one is not taken", "1"),
    _beat("a newer version", "price < 5", 2),
    _pulled("the newer one is taken", "2"),
    _beat("a newer version that is wrong", "price <", 3),
    _pulled("the wrong one has no filter", "3"),
    _entries("entries of a group without a filter", "s"),
    _beat("a newer version that is empty", "", 4),
    _pulled("the empty one has no filter", "4"),
    _beat("a newer version of an unknown type", _DEAR, 5, "X"),
    _pulled("the unknown one has no filter", "5"),
    _beat("tags again", "T7", 6, "TAG"),
    _pulled("the tag is taken", "6"),
    _beat("an expression again", _DEAR, 7),
    _pulled("the expression is taken", "7"),
    _entries("entries of a group with a filter", "s"),
    _entries("entries of a group that is not there", "t"),
    # Messages that are tried again
    _price(3, _RETRY, "\x02RETRY_TOPIC\x01Orders"),
    _price(8, _RETRY, "\x02RETRY_TOPIC\x01Orders"),
    _price(2, _RETRY, "\x02RETRY_TOPIC\x01Elsewhere"),
    _pulled("retried messages", "1", _RETRY),
    with_body("retried messages are filtered", _CHANGE, b"filterSupportRetry=true"),
    _pulled("retried messages that are filtered", "1", _RETRY),
    pull("retried messages of a carried subscription", _RETRY, consumerGroup="s"),
    pull("retried messages of another topic's expression", _RETRY, consumerGroup="s",
         expressionType="SQL92", subscription="price > 2"),
    with_body("they are no longer filtered", _CHANGE, b"filterSupportRetry=false"),
    # Codes of filter servers, which are gone
    plain("a filter server registers", RequestCode.REGISTER_FILTER_SERVER),
    plain("a filter class", RequestCode.REGISTER_MESSAGE_FILTER_CLASS),
)  # fmt: skip
