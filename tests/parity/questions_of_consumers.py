"""Requests of consumers, valid and invalid."""

from __future__ import annotations

from tests.parity.question import (
    CloseConnection,
    Question,
    RequestCode,
    Step,
    heartbeat,
    plain,
    pull,
    topic_config,
    with_body,
)

_PULLED = ("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag")
_DISPENSABLE = ("commitOffset", "suspendTimeoutMillis", "subscription", "subVersion")
_BEAT = RequestCode.HEART_BEAT
_MEMBERS = RequestCode.GET_CONSUMER_LIST_BY_GROUP
_LOCK, _UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
_QUERY, _COMMIT = RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET
_GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
_SEARCH = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
_QUEUE = {"topic": "Orders", "brokerName": "broker-a", "queueId": 0}
_FUTURE_MS = "4000000000000"


def _said(value: object) -> object:
    return "-" if value is ... else value


def _lock(title: str, code: int = _LOCK, **changed: object) -> Question:
    body = {"consumerGroup": "g", "clientId": "A", "mqSet": [_QUEUE], **changed}
    return with_body(title, code, {k: v for k, v in body.items() if v is not ...})


PULLING: tuple[Step, ...] = (
    pull("two of what is there", maxMsgNums="2"),
    pull("none of what is there", maxMsgNums="0"),
    pull("from the end", queueOffset="99"),
    pull("from before the beginning", queueOffset="-1"),
    pull("an empty queue", queueId="2"),
    pull("an empty queue from 7", queueId="2", queueOffset="7"),
    pull("a pull of a queue that is not there", queueId="4"),
    pull("a queue below 0", queueId="-1"),
    pull("a topic that is not there", "Nowhere"),
    pull("a pull of no topic name", ""),
    pull("a pull of a topic that is null", topic=None),
    pull("a pull by an empty group", consumerGroup=""),
    pull("one tag", subscription="TagA"),
    pull("a tag nobody has", subscription="TagZ"),
    pull("two tags", subscription="TagZ || TagA"),
    pull("tags that are none", subscription="||"),
    pull("an empty expression", subscription=""),
    pull("no expression", subscription=...),
    pull("another type of expression", expressionType="SQL92", subscription="a > 1"),
    pull("a type nobody knows", expressionType="X", subscription="a"),
    pull("a subscription nobody told", sysFlag="0"),
    topic_config("a closed topic", "Closed", perm="2"),
    pull("a closed topic is not pulled", "Closed"),
    *(pull(f"a pull without {name}", **{name: ...}) for name in _PULLED),
    pull("an offset that is a word", queueOffset="x"),
    plain("a pull with no fields", RequestCode.PULL_MESSAGE),
)

MEMBERS: tuple[Step, ...] = (
    heartbeat("a first heartbeat", "c1", "m"),
    heartbeat("the same heartbeat again", "c1", "m"),
    heartbeat("a second member", "c2", "m", by="two"),
    pull("a member pulls", consumerGroup="m", sysFlag="0", subVersion="1"),
    pull("a member with news", consumerGroup="m", sysFlag="0", subVersion="2"),
    pull("a member and another topic", "Wide", consumerGroup="m", sysFlag="0"),
    pull("a member without the version", consumerGroup="m", sysFlag="0", subVersion=...),
    pull("a pull that may wait, for no time", sysFlag="6", suspendTimeoutMillis=...),
    heartbeat("a member in unit mode", "c3", "unit3", unit_mode=True),
    plain("the members", _MEMBERS, consumerGroup="m"),
    plain("the connections", RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="m"),
    CloseConnection("two"),
    plain("the members of nobody", _MEMBERS, consumerGroup="x"),
    plain("the members of none", _MEMBERS),
    plain("the members of an empty", _MEMBERS, consumerGroup=""),
    plain("connections of nobody", RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="x"),
    plain("connections of none", RequestCode.GET_CONSUMER_CONNECTION_LIST),
    with_body("a producer", _BEAT, {"clientID": "p1", "producerDataSet": [{"groupName": "pg"}]}),
    plain("the producers", RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="pg"),
    plain("the producers of nobody", RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="x"),
    plain("a producer goes", RequestCode.UNREGISTER_CLIENT, clientID="p1", producerGroup="pg"),
    plain("no producers", RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="pg"),
    with_body("a heartbeat of nothing", _BEAT, b""),
    with_body("a heartbeat of words", _BEAT, b"hello"),
    with_body("a heartbeat of a list", _BEAT, [1, 2]),
    with_body("a heartbeat of null", _BEAT, b"null"),
    with_body("a group of no name", _BEAT, {"clientID": "c", "consumerDataSet": [{}]}),
    heartbeat("a group of the empty name", "c", ""),
    heartbeat("a heartbeat of a group of an odd name", "c", "a b!"),
    heartbeat("no topics", "c", "h2", topics=()),
    with_body(
        "a model nobody knows",
        _BEAT,
        {"clientID": "c", "consumerDataSet": [{"groupName": "h4", "messageModel": "ODD"}]},
    ),
    with_body(
        "a model by its number",
        _BEAT,
        {"clientID": "c", "consumerDataSet": [{"groupName": "h5", "messageModel": 0}]},
    ),
    plain("connections of h5", RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="h5"),
    with_body(
        "a producer without a name", _BEAT, {"clientID": "c", "producerDataSet": [{"x": 1}]}
    ),
    plain("a member goes", RequestCode.UNREGISTER_CLIENT, clientID="c1", consumerGroup="m"),
    plain("he was the last", _MEMBERS, consumerGroup="m"),
    plain("a stranger goes", RequestCode.UNREGISTER_CLIENT, clientID="zz", consumerGroup="zz"),
    plain("nobody goes", RequestCode.UNREGISTER_CLIENT, clientID="c1"),
    with_body("a good subscription", RequestCode.CHECK_CLIENT_CONFIG, {
        "clientId": "c", "group": "g",
        "subscriptionData": {"topic": "Orders", "subString": "*", "expressionType": "TAG"},
    }),
    with_body("a subscription with an expression", RequestCode.CHECK_CLIENT_CONFIG, {
        "clientId": "c", "group": "g",
        "subscriptionData": {"topic": "Orders", "subString": "a>1", "expressionType": "SQL92"},
    }),
    with_body("a subscription to nothing", RequestCode.CHECK_CLIENT_CONFIG, {"clientId": "c"}),
)  # fmt: skip

LOCKS: tuple[Step, ...] = (
    _lock("a lock"),
    _lock("another's lock", clientId="B"),
    _lock("a lock of two", mqSet=[_QUEUE, {**_QUEUE, "queueId": 77}]),
    _lock("another gives it back", _UNLOCK, clientId="B"),
    _lock("it is still held", clientId="B"),
    _lock("its owner gives it back", _UNLOCK),
    _lock("now it is free", clientId="B"),
    _lock("a lock of one queue, named twice", mqSet=[_QUEUE, _QUEUE], clientId="B"),
    _lock("a lock of no queues", mqSet=[]),
    _lock("a lock without queues", mqSet=...),
    _lock("a lock of no group", consumerGroup=...),
    _lock("a lock of nobody", clientId=...),
    with_body("a lock of nothing", _LOCK, b""),
    with_body("a lock of words", _LOCK, b"hello"),
    _lock("nobody gives back", _UNLOCK, clientId=...),
    _lock("no group gives back", _UNLOCK, consumerGroup=...),
    _lock("no queues are given back", _UNLOCK, mqSet=...),
    with_body("nothing is given back", _UNLOCK, b""),
)

OFFSETS: tuple[Step, ...] = (
    with_body("a group that commits", _GROUP, {"groupName": "o"}),
    plain("a new group", _QUERY, consumerGroup="o", topic="Orders", queueId="0"),
    plain("a new group, an empty queue", _QUERY, consumerGroup="o", topic="Orders", queueId="2"),
    plain("a new group, no queue", _QUERY, consumerGroup="o", topic="Orders", queueId="77"),
    plain("a new group, no topic", _QUERY, consumerGroup="o", topic="Nowhere", queueId="0"),
    plain(
        "a group that wants no zero",
        _QUERY,
        consumerGroup="o",
        topic="Orders",
        queueId="0",
        setZeroIfNotFound="false",
    ),
    plain("a query without a topic", _QUERY, consumerGroup="o", queueId="0"),
    plain("a query without a queue", _QUERY, consumerGroup="o", topic="Orders"),
    plain("a query with a word", _QUERY, consumerGroup="o", topic="Orders", queueId="x"),
    *(
        step
        for title, commit, queue in (
            ("a commit", "3", "0"),
            ("a smaller one", "1", "0"),
            ("a commit beyond the end", "12345", "0"),
            ("a commit below 0", "-1", "1"),
            ("a commit of a queue that is not there", "5", "77"),
        )
        for step in (
            plain(
                title,
                _COMMIT,
                consumerGroup="o",
                topic="Orders",
                queueId=queue,
                commitOffset=commit,
            ),
            plain(f"{title}, asked", _QUERY, consumerGroup="o", topic="Orders", queueId=queue),
        )
    ),
    plain(
        "a commit of a topic that is not there",
        _COMMIT,
        consumerGroup="o",
        topic="Nowhere",
        queueId="0",
        commitOffset="5",
    ),
    plain(
        "a commit of a group that is not there",
        _COMMIT,
        consumerGroup="stranger",
        topic="Orders",
        queueId="0",
        commitOffset="5",
    ),
    *(
        plain(f"{name} of {_said(topic)}@{_said(queue)}", code, topic=topic, queueId=queue)
        for name, code in (
            ("max", RequestCode.GET_MAX_OFFSET),
            ("min", RequestCode.GET_MIN_OFFSET),
            ("earliest", RequestCode.GET_EARLIEST_MSG_STORETIME),
        )
        for topic, queue in (
            ("Orders", "0"),
            ("Orders", "2"),
            ("Orders", "-1"),
            ("Orders", "77"),
            ("Nowhere", "0"),
            ("Orders", ...),
            (..., "0"),
        )
    ),
    *(
        plain(f"search {ms} in {topic}@{queue}", _SEARCH, topic=topic, queueId=queue, timestamp=ms)
        for ms in ("0", "-1", _FUTURE_MS)
        for topic, queue in (("Orders", "0"), ("Orders", "2"), ("Nowhere", "0"))
    ),
    plain(
        "search the last before",
        _SEARCH,
        topic="Orders",
        queueId="0",
        timestamp=_FUTURE_MS,
        boundaryType="UPPER",
    ),
    plain("search without a time", _SEARCH, topic="Orders", queueId="0"),
)  # fmt: skip

# Required fields whose absence upstream does not check.
LAX: tuple[Step, ...] = (
    *(pull(f"a pull without {name}", **{name: ...}) for name in _DISPENSABLE),
    pull("less than none", maxMsgNums="-1"),
    pull("bytes at most that are a word", maxMsgBytes="x"),
    with_body("a heartbeat of nobody", _BEAT, {}),
    heartbeat("a heartbeat without a name", None, "h1"),
    plain("the members without a name", _MEMBERS, consumerGroup="h1"),
    heartbeat("a topic without a name", "c", "h3", topics=(None,)),
    with_body("null sets", _BEAT, {"clientID": "c", "consumerDataSet": None}),
    with_body("a null member", _BEAT, {"clientID": "c", "consumerDataSet": [None]}),
    plain("somebody goes", RequestCode.UNREGISTER_CLIENT, consumerGroup="m"),
    with_body("no subscription", RequestCode.CHECK_CLIENT_CONFIG, b""),
    _lock("a lock of null queues", mqSet=None),
    _lock("a lock of a null queue", mqSet=[None]),
    _lock("a lock of a queue without a name", mqSet=[{}]),
    plain("a query without a group", _QUERY, topic="Orders", queueId="0"),
    plain("a commit, no group", _COMMIT, topic="Orders", queueId="0", commitOffset="5"),
    plain("a commit, no queue", _COMMIT, consumerGroup="o", topic="Orders", commitOffset="5"),
    plain("a commit, no offset", _COMMIT, consumerGroup="o", topic="Orders", queueId="0"),
)
