"""Requests of tools, valid and invalid, and unknown codes."""

from __future__ import annotations

from tests.parity.question import RequestCode, Step, plain, topic_config, with_body

_GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
_CREATED = ("readQueueNums", "writeQueueNums", "perm", "topicFilterType")

FIRST: tuple[Step, ...] = (
    plain("the topics of a new broker", RequestCode.GET_ALL_TOPIC_CONFIG),
    plain("the groups of a new broker", RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    plain("a code nobody knows", 9_999),
)

TOOLS: tuple[Step, ...] = (
    topic_config("a new topic", "Made"),
    topic_config("the same topic again", "Made"),
    topic_config("a changed topic", "Made", readQueueNums="6", writeQueueNums="2", order="true"),
    topic_config("a topic of no queues", "Empty", readQueueNums="0", writeQueueNums="0"),
    topic_config("a topic of too many", "Huge", readQueueNums="100000"),
    topic_config("a topic below no queues", "Below", readQueueNums="-3"),
    topic_config("a permission of 99", "Odd", perm="99"),
    topic_config("a new topic without a name", ""),
    topic_config("a topic name with blanks", "no blank"),
    topic_config("a topic name too long", "x" * 128),
    topic_config("a system topic", "TBW102"),
    topic_config("the cluster's topic", "DefaultCluster"),
    topic_config("the broker's topic", "broker-a"),
    topic_config("a retry topic", "%RETRY%made"),
    topic_config("a filter type in small letters", "Small", topicFilterType="single_tag"),
    topic_config("a filter type nobody knows", "Odd2", topicFilterType="X"),
    *(topic_config(f"a topic without {name}", "Less", **{name: ...}) for name in _CREATED),
    topic_config("a topic without the rest", "Less2", topicSysFlag=..., order=...),
    topic_config("a queue count that is a word", "Odd3", readQueueNums="x"),
    *(
        plain(f"the figures of {topic}", RequestCode.GET_TOPIC_STATS_INFO, topic=topic)
        for topic in ("Orders", "Made", "Empty", "Nowhere", "")
    ),
    plain("the figures of no topic", RequestCode.GET_TOPIC_STATS_INFO),
    plain("how far a group is", RequestCode.GET_CONSUME_STATS, consumerGroup="o"),
    plain("how far in a topic", RequestCode.GET_CONSUME_STATS, consumerGroup="o", topic="Orders"),
    plain(
        "how far in no topic", RequestCode.GET_CONSUME_STATS, consumerGroup="o", topic="Nowhere"
    ),
    plain("how far nobody is", RequestCode.GET_CONSUME_STATS, consumerGroup="nobody"),
    plain("how far in an empty name", RequestCode.GET_CONSUME_STATS, consumerGroup="o", topic=""),
    plain("how far without a group", RequestCode.GET_CONSUME_STATS),
    plain("who consumes", RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="Orders"),
    plain("who consumes nothing", RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="Nowhere"),
    plain("who consumes what is not said", RequestCode.QUERY_TOPIC_CONSUME_BY_WHO),
    with_body("a group by its tools", _GROUP, {"groupName": "made", "retryMaxTimes": 3}),
    with_body("a group without a name", _GROUP, {"retryMaxTimes": 3}),
    with_body("a group of an empty name", _GROUP, {"groupName": ""}),
    with_body("a group of an odd name", _GROUP, {"groupName": "a b!"}),
    with_body("a group of words", _GROUP, b"hello"),
    with_body("a group of nothing", _GROUP, b""),
    plain("the groups", RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    plain("a topic goes", RequestCode.DELETE_TOPIC_IN_BROKER, topic="Wide"),
    plain("it goes again", RequestCode.DELETE_TOPIC_IN_BROKER, topic="Wide"),
    plain("a system topic stays", RequestCode.DELETE_TOPIC_IN_BROKER, topic="TBW102"),
    plain("the cluster's topic stays", RequestCode.DELETE_TOPIC_IN_BROKER, topic="DefaultCluster"),
    plain("a topic of no name goes", RequestCode.DELETE_TOPIC_IN_BROKER, topic=""),
    plain("the end of a topic that went", RequestCode.GET_MAX_OFFSET, topic="Wide", queueId="7"),
    plain("the topics", RequestCode.GET_ALL_TOPIC_CONFIG),
)

# Fields whose absence upstream notices only when it uses them.
LAX: tuple[Step, ...] = (
    *(topic_config(f"a topic without {n}", "Less", **{n: ...}) for n in ("topic", "defaultTopic")),
    with_body("a group that is null", _GROUP, b"null"),
    plain("what is not said goes", RequestCode.DELETE_TOPIC_IN_BROKER),
)
