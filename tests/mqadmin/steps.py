"""The mqadmin commands to run, in order: each command of mqadmin that applies to the emulator.

``{broker}`` and ``{namesrv}`` are addresses, ``{first}`` is the offset id of the first message,
``{files}`` a folder.  Messages have fixed keys and are sent without an SDK, so that outputs
depend only on the cluster.
"""

from __future__ import annotations

from typing import NamedTuple

BOTH = ("4.9.7", "5.3.3")
FOUR, FIVE = ("4.9.7",), ("5.3.3",)
UNIQUE = "C0A80001000000000000000000000001"


class Ask(NamedTuple):
    """One command line; its first word is the command."""

    line: str
    releases: tuple[str, ...] = BOTH
    asks_namesrv: bool = True


class Put(NamedTuple):
    """Store one message, and wait until it can be read."""

    topic: str
    queue: int
    body: bytes
    properties: str


class Commit(NamedTuple):
    """A group commits an offset."""

    group: str
    topic: str
    queue: int
    offset: int


class Join(NamedTuple):
    """The member connects."""


class Leave(NamedTuple):
    """The member closes its connection."""


Step = Ask | Put | Commit | Join | Leave

TOPICS: tuple[Step, ...] = (
    Ask("updateTopic -b {broker} -t Orders -r 4 -w 4"),
    Ask("updateTopic -c DefaultCluster -t Ordered -r 2 -w 2 -o true"),
    Ask("updateTopic -b {broker} -t Orders -r 4 -w 4 -p 6"),
    Ask("updateTopic -b {broker} -t TBW102"),
    Ask("updateTopicPerm -b {broker} -t Ordered -p 4"),
    Ask("updateTopicPerm -c DefaultCluster -t Ordered -p 4"),
    Ask("topicList"),
    Ask("topicRoute -t Orders"),
    Ask("topicRoute -t Nowhere"),
    Ask("topicRoute -t Orders -l", FIVE),
    Ask("topicStatus -t Orders"),
    Ask("topicClusterList -t Orders"),
    Ask("allocateMQ -t Orders -i 10.0.0.1,10.0.0.2"),
    Ask("updateOrderConf -t Orders -m put -v broker-a:4"),
    Ask("updateOrderConf -t Orders -m get"),
    Ask("updateOrderConf -t Orders -m delete"),
)
GROUPS: tuple[Step, ...] = (
    Ask("updateSubGroup -c DefaultCluster -g billing"),
    Ask("updateSubGroup -b {broker} -g shipping -r 3 -q 2"),
    Ask("getConsumerConfig -g billing"),
    Ask("setConsumeMode -b {broker} -t Orders -g billing -m PULL", FIVE),
    Ask("setConsumeMode -b {broker} -t Nowhere -g billing -m PULL", FIVE),
)
MESSAGES: tuple[Step, ...] = (
    Put("Orders", 0, b"first", f"KEYS\x01red blue\x02TAGS\x01A\x02UNIQ_KEY\x01{UNIQUE}"),
    Put("Orders", 0, b"second", "KEYS\x01blue\x02TAGS\x01B\x02UNIQ_KEY\x01C0A8000100X2"),
    Put("Orders", 1, b"third", "TAGS\x01A\x02UNIQ_KEY\x01C0A8000100X3"),
    Ask("sendMessage -t Orders -p fourth -k green -c C -b broker-a -i 2"),
    Ask("checkMsgSendRT -t Orders -a 1 -s 10"),
    Ask("sendMsgStatus -b broker-a -s 10 -c 1"),
    Ask("queryMsgByKey -t Orders -k blue"),
    Ask("queryMsgByKey -t Orders -k nobody"),
    Ask("queryMsgByKey -t Orders -k blue -m 1", FIVE),
    Ask(f"queryMsgByUniqueKey -t Orders -i {UNIQUE}"),
    Ask("queryMsgByUniqueKey -t Orders -i nobody"),
    Ask("queryMsgById -i {first}", FOUR),
    Ask("queryMsgById -t Orders -i {first}", FIVE),
    Ask("queryMsgByOffset -t Orders -b broker-a -i 0 -o 1"),
    Ask("queryMsgByOffset -t Orders -b broker-a -i 0 -o 99"),
    Ask("queryMsgTraceById -i nobody"),
    Ask("queryCq -t Orders -q 0 -i 0 -c 5"),
    Ask("queryCq -t Orders -q 0 -i 99 -c 5"),
    Ask("queryCq -t Orders -q 3 -i 0 -c 5"),
    Ask("queryCq -t Orders -q 0 -i 0 -c 5 -b {broker} -g billing"),
    Ask("printMsg -t Orders"),
    Ask("printMsgByQueue -t Orders -a broker-a -i 0 -p true -d true -f true"),
    Ask("consumeMessage -t Orders -b broker-a -i 0 -o 1 -c 1"),
)
MEMBERS: tuple[Step, ...] = (
    Ask("consumerConnection -g billing"),
    Ask("consumerProgress -g nobody"),
    Join(),
    Commit("billing", "Orders", 0, 1),
    Ask("consumerConnection -g billing"),
    Ask("producerConnection -g cashiers -t Orders"),
    Ask("producerConnection -g nobody -t Orders"),
    Ask("producer -b {broker}"),
    Ask("consumerProgress -g billing"),
    Ask("consumerProgress"),
    Ask("consumerStatus -g billing"),
    Ask("consumerStatus -g billing -i 10.0.0.7@member"),
    Ask("consumerStatus -g billing -i nobody"),
    Ask("queryMsgById -i {first} -g billing -d 10.0.0.7@member", FOUR),
    Ask("queryMsgById -t Orders -i {first} -g billing -d 10.0.0.7@member", FIVE),
    Ask("queryCq -t Orders -q 0 -i 0 -c 1 -b {broker} -g billing"),
    Ask("brokerConsumeStats -b {broker}"),
    Ask("brokerConsumeStats -b {broker} -o true"),
    Ask("statsAll -t Orders"),
    Leave(),
)
OFFSETS: tuple[Step, ...] = (
    Ask("resetOffsetByTime -g billing -t Orders -s 0 -f true"),
    Ask("resetOffsetByTimeOld -g billing -t Orders -s -1 -f true"),
    Ask("skipAccumulatedMessage -g billing -t Orders"),
    Ask("cloneGroupOffset -s billing -d shipping -t Orders -o true"),
    Ask("getConsumerStatus -g billing -t Orders"),
)
SERVERS: tuple[Step, ...] = (
    Ask("clusterList"),
    Ask("clusterList -m"),
    Ask("brokerStatus -b {broker}", FOUR),
    Ask("brokerStatus -c DefaultCluster", FIVE),
    Ask("getBrokerConfig -b {broker}"),
    Ask("updateBrokerConfig -b {broker} -k brokerPermission -v 6"),
    Ask("updateBrokerConfig -b {broker} -k brokerConfigPath -v /tmp"),
    Ask("getNamesrvConfig"),
    Ask("updateNamesrvConfig -k nobody -v 1"),
    Ask("updateKvConfig -s own -k color -v red"),
    Ask("deleteKvConfig -s own -k color"),
    Ask("wipeWritePerm -b broker-a"),
    Ask("addWritePerm -b broker-a"),
    Ask("cleanExpiredCQ -b {broker}"),
    Ask("cleanExpiredCQ -c DefaultCluster"),
    Ask("cleanUnusedTopic -b {broker}"),
    Ask("deleteExpiredCommitLog -b {broker}"),
    Ask("exportMetadata -c DefaultCluster -f {files}"),
    Ask("exportConfigs -c DefaultCluster -f {files}"),
    Ask("exportMetrics -c DefaultCluster -f {files}"),
    Ask("haStatus -c DefaultCluster", FIVE),
    Ask("getBrokerEpoch -c DefaultCluster", FIVE),
    Ask("getColdDataFlowCtrInfo -b {broker}", FIVE),
    Ask("listUser -b {broker}", FIVE),
    Ask("listAcl -b {broker}", FIVE),
)
END: tuple[Step, ...] = (
    Ask("deleteSubGroup -c DefaultCluster -g shipping"),
    Ask("deleteTopic -c DefaultCluster -t Ordered"),
    Ask("topicList"),
)
STEPS = (*TOPICS, *GROUPS, *MESSAGES, *MEMBERS, *OFFSETS, *SERVERS, *END)
