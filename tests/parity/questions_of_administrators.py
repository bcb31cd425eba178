"""Requests of mqadmin and dashboards, for a separate broker: figures, settings, resets, clones."""

from __future__ import annotations

from typing import Any

from tests.parity.question import (
    CloseConnection,
    Question,
    RequestCode,
    Sleep,
    Step,
    heartbeat,
    plain,
    pull,
    send,
    topic_config,
    with_body,
)

_COMMIT, _QUERY = RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET
_RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
_STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
_CLONE = RequestCode.CLONE_GROUP_OFFSET
_GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
_DELETE = RequestCode.DELETE_SUBSCRIPTIONGROUP
_STATS = RequestCode.VIEW_BROKER_STATS_DATA
_SET, _SETTINGS = RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG
_RUNTIME = RequestCode.GET_BROKER_RUNTIME_INFO
_OFFSETS = RequestCode.GET_ALL_CONSUMER_OFFSET


def _commit(title: str, group: str, queue: int, offset: int, topic: str = "Rest") -> Question:
    fields = {"topic": topic, "queueId": str(queue), "commitOffset": str(offset)}
    return plain(title, _COMMIT, consumerGroup=group, **fields)


def _query(title: str, group: str, queue: int) -> Question:
    return plain(title, _QUERY, consumerGroup=group, topic="Rest", queueId=str(queue))


def _reset(title: str, group: str = "g", topic: str = "Rest", /, **changed: Any) -> Question:
    fields = {"topic": topic, "group": group, "timestamp": "0", "isForce": "true", **changed}
    return plain(title, _RESET, **{k: v for k, v in fields.items() if v is not ...})


def _clone(title: str, **changed: Any) -> Question:
    fields = {"srcGroup": "g", "destGroup": "copy", "topic": "Rest", "offline": "true", **changed}
    return plain(title, _CLONE, **{k: v for k, v in fields.items() if v is not ...})


def _stats(title: str, name: str, key: str) -> Question:
    return plain(title, _STATS, statsName=name, statsKey=key)


_NEW: tuple[Step, ...] = (
    plain("the settings of a new broker", _SETTINGS),
    plain("the offsets of a new broker", _OFFSETS),
    plain("the delayed of a new broker", RequestCode.GET_ALL_DELAY_OFFSET),
    plain("the system's topics", RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
)

_PREPARED: tuple[Step, ...] = (
    topic_config("a topic of two", "Rest", readQueueNums="2", writeQueueNums="2"),
    topic_config("a topic nobody uses", "Idle", readQueueNums="1", writeQueueNums="1"),
    send("the first", "Rest"),
    send("the second", "Rest", e="1"),
    heartbeat("a member", "A", topics=("Rest",), by="member"),
    with_body("a group by its tools", _GROUP, {"groupName": "made", "retryMaxTimes": 3}),
    Sleep(11_000),
    send("the third", "Rest"),
    send("the fourth", "Rest"),
    pull("a pull of all", "Rest"),
    _commit("a commit in the first queue", "g", 0, 2),
    _commit("a commit in the second", "g", 1, 1),
    Sleep(11_000),
)

_LOOKS: tuple[Step, ...] = (
    plain("the figures", _RUNTIME),
    plain("one topic", RequestCode.GET_TOPIC_CONFIG, topic="Rest"),
    plain("a topic there is not", RequestCode.GET_TOPIC_CONFIG, topic="Nowhere"),
    plain("a topic without a name", RequestCode.GET_TOPIC_CONFIG),
    plain("one group", RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="made"),
    plain("a group there is not", RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="asked"),
    plain("a group of an odd name", RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="a b!"),
    plain("a group without a name", RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG),
    plain("the offsets", _OFFSETS),
    plain("the topics of a group", RequestCode.QUERY_TOPICS_BY_CONSUMER, group="g"),
    plain("the topics of nobody", RequestCode.QUERY_TOPICS_BY_CONSUMER, group="nobody"),
    plain("the topics of no name", RequestCode.QUERY_TOPICS_BY_CONSUMER),
    *(
        plain(title, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, **fields)
        for title, fields in (
            ("a subscription", {"group": "g", "topic": "Rest"}),
            ("a subscription of another topic", {"group": "g", "topic": "Idle"}),
            ("a subscription of nobody", {"group": "nobody", "topic": "Rest"}),
            ("a subscription to no topic", {"group": "g"}),
        )
    ),
    *(
        plain(title, RequestCode.QUERY_CONSUME_TIME_SPAN, **fields)
        for title, fields in (
            ("the times of a group", {"group": "g", "topic": "Rest"}),
            ("the times of nobody", {"group": "nobody", "topic": "Rest"}),
            ("the times in an empty topic", {"group": "g", "topic": "Idle"}),
            ("the times in no topic", {"group": "g", "topic": "Nowhere"}),
            ("the times of no group", {"topic": "Rest"}),
        )
    ),
    _stats("what was put into a topic", "TOPIC_PUT_NUMS", "Rest"),
    _stats("what was put into another", "TOPIC_PUT_NUMS", "Idle"),
    _stats("how much was put into a topic", "TOPIC_PUT_SIZE", "Rest"),
    _stats("what a group got", "GROUP_GET_NUMS", "Rest@g"),
    _stats("how much a group got", "GROUP_GET_SIZE", "Rest@g"),
    _stats("what the broker was given", "BROKER_PUT_NUMS", "DefaultCluster"),
    _stats("what the broker gave", "BROKER_GET_NUMS", "DefaultCluster"),
    _stats("a figure of no name", "NO_SUCH", "Rest"),
    plain("a figure of nothing", _STATS),
)

_RESETS: tuple[Step, ...] = (
    _reset("a reset", timestamp="0"),
    _query("what a reset group asks for", "g", 0),
    _commit("a commit after a reset", "g", 0, 3),
    _query("what it asks for then", "g", 0),
    pull("a pull after a reset", "Rest", queueOffset="2"),
    pull("the pull after that", "Rest"),
    _commit("a commit after that", "g", 0, 1),
    _query("what it asks for at last", "g", 0),
    _reset("a reset before a pull that commits"),
    pull("a pull that commits as it is reset", "Rest", sysFlag="5", commitOffset="2"),
    _query("what that pull has committed", "g", 0),
    pull("the other queue's pull", "Rest", queueId="1", queueOffset="1"),
    _reset("a reset to the end", timestamp="-1"),
    pull("a pull after a reset to the end", "Rest"),
    _reset("a reset to the future", timestamp="4000000000000"),
    _reset("a reset that is not forced", timestamp="-1", isForce="false"),
    _reset("a reset to before all time", timestamp="-7"),
    _reset("a reset of one queue", queueId="0", offset="1"),
    pull("a pull of the queue that was reset", "Rest", queueOffset="3"),
    _reset("a reset beyond the end", queueId="0", offset="99"),
    _reset("a reset just beyond the end", queueId="0", offset="4"),
    _reset("a reset of one queue by time", queueId="1", offset="-1"),
    _reset("a reset of a queue there is not", queueId="9", offset="0"),
    _reset("a reset in no topic", "g", "Nowhere"),
    _reset("a reset of nobody", "nobody"),
    _reset("a reset in a topic without offsets", "g", "Idle"),
    _reset("a reset without a time", timestamp=...),
    _reset("a reset without a group", group=...),
    _reset("a reset without force", isForce=...),
    plain("the status of members that are silent", _STATUS, topic="Rest", group="g"),
    plain("the status of another", _STATUS, topic="Rest", group="g", clientAddr="Z"),
    plain("the status of nobody", _STATUS, topic="Rest", group="nobody"),
    CloseConnection(by="member"),
    Sleep(200),
    _reset("a reset while nobody is there"),
    plain("the status while nobody is there", _STATUS, topic="Rest", group="g"),
)

_CLONES: tuple[Step, ...] = (
    _commit("a last commit", "g", 0, 1),
    _commit("a last commit in the second", "g", 1, 1),
    _clone("a clone"),
    _query("what the clone asks for", "copy", 1),
    _clone("a clone of every topic", topic=..., destGroup="all"),
    _clone("a clone of nobody", srcGroup="nobody", destGroup="none"),
    _clone("a clone of no topic", topic="Nowhere", destGroup="none"),
    _clone("a clone that is online", offline="false", destGroup="online"),
    plain("the offsets after the clones", _OFFSETS),
)

_DELETIONS: tuple[Step, ...] = (
    plain("a group goes", _DELETE, groupName="made"),
    plain("it goes again", _DELETE, groupName="made"),
    plain("a group goes with its offsets", _DELETE, groupName="copy", cleanOffset="true"),
    plain("a group goes as it did", _DELETE, groupName="online", removeOffset="true"),
    plain("no group goes", _DELETE),
    plain("the offsets that stay", _OFFSETS),
    plain("the groups that stay", RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
)

_SETTINGS_CHANGE: tuple[Step, ...] = (
    with_body("a setting", _SET, b"autoCreateTopicEnable=false\n"),
    send("a send to a new topic", "Unmade"),
    with_body("the setting as it was", _SET, b"autoCreateTopicEnable=true\n"),
    with_body("no writing", _SET, b"brokerPermission=4\n"),
    send("a send to a broker that may not", "Rest"),
    with_body("writing again", _SET, b"brokerPermission=6\n"),
    with_body("a setting nobody knows", _SET, b"noSuchSetting=1\n"),
    with_body("a setting of a wrong type", _SET, b"brokerPermission=many\n"),
    with_body("a switch that is neither", _SET, b"longPollingEnable=maybe\n"),
    with_body("settings in no text", _SET, b"traceOn=\\u12\n"),
    with_body("no settings", _SET, b""),
    with_body("the path of the settings", _SET, b"brokerConfigPath=/tmp/x\n"),
    with_body("the home", _SET, b"rocketmqHome=/tmp/x\n"),
    with_body("the black list", _SET, b"configBlackList=x\n"),
    with_body("two settings, one forbidden", _SET, b"traceOn=false\nrocketmqHome=/tmp/x\n"),
    plain("the settings", _SETTINGS),
)

ADMINISTRATION: tuple[Step, ...] = (
    *_NEW,
    *_PREPARED,
    *_LOOKS,
    *_RESETS,
    *_CLONES,
    *_DELETIONS,
    *_SETTINGS_CHANGE,
)
