"""``message``, ``dlq``, ``topic delete``, ``group delete``: found, repeated, removed."""

from __future__ import annotations

import json

import pytest

from rocketmq_emulator import sync
from rocketmq_emulator.admin.dead_letters import DROPPED, NoOrigin, replayed
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.protocol.messages import properties as names
from rocketmq_emulator.protocol.messages.message import Message
from tests.support.cli.in_process import commands, give_up


@pytest.fixture(scope="module", params=["4.9.7", "5.3.3"])
def cluster(request):
    with EmbeddedCluster(ClusterSpec(release=request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def rmqemu(cluster):
    return commands(NAMESRV_ADDR=cluster.namesrv)


@pytest.fixture
def topic(rmqemu, request) -> str:
    name = request.node.name.partition("[")[0][:60]
    rmqemu("topic", "create", name, "--queues=1")
    return name


def json_lines(text: str) -> list:
    return [json.loads(line) for line in text.splitlines()]


def peek(rmqemu, topic: str) -> list[dict]:
    return json_lines(rmqemu("consume", f"--topic={topic}", "--peek", "--json").stdout)


# Finding ------------------------------------------------------------------------------------


def test_a_message_is_found_by_either_of_its_ids_and_by_its_key(rmqemu, topic) -> None:
    send = ("produce", f"--topic={topic}", "--key=A-1 red", "--tag=paid", "--json")
    (sent,) = json_lines(rmqemu(*send, stdin="two cups").stdout)
    for id_ in (sent["msg_id"], sent["offset_msg_id"]):
        (found,) = json_lines(rmqemu("message", "get", id_, "--json").stdout)
        assert (found["body"], found["queue"], found["keys"]) == ("two cups", 0, "A-1 red")
    assert rmqemu("message", "get", sent["msg_id"], f"--topic={topic}").stdout.endswith(
        "\ntwo cups\n"
    )
    assert rmqemu("message", "by-key", topic, "red", "--format={body}").stdout == "two cups\n"
    assert "  A-1 red  two cups" in rmqemu("message", "by-key", topic, "A-1").stdout


def test_the_newest_messages_of_a_key_are_shown_oldest_first(rmqemu, topic) -> None:
    for body in ("1", "2", "3"):
        rmqemu("produce", f"--topic={topic}", "--key=k", stdin=body)
    shown = rmqemu("message", "by-key", topic, "k", "--count=2", "--format={body}").stdout
    assert shown.split() == ["2", "3"]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("message", "get", "42"), 2, "a message id is 32 (or 56) hexadecimal digits"),
        (("message", "get", "0" * 32), 4, "no message in this cluster has the id"),
        (("message", "get", "0" * 32, "--topic=nope"), 4, "there is no topic nope"),
        (("message", "by-key", "nope", "k"), 4, "there is no topic nope"),
        (("topic", "delete", "nope", "--yes"), 4, "there is no topic nope"),
        (("topic", "delete", "TBW102", "--yes"), 1, "conflict with system topic"),
        (("group", "delete", "nope", "--yes"), 4, "there is no group nope"),
        (("dlq", "list", "nope"), 4, "nope has no dead letters"),
        (("dlq", "replay", "nope"), 4, "nope has no dead letters"),
        (("dlq", "list", "--format={body}"), 2, "name a group"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(rmqemu, arguments, code, complaint) -> None:
    done = rmqemu(*arguments, code=code)
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "delete" not in arguments or "topic create" not in done.stderr


# Traces -------------------------------------------------------------------------------------


def test_the_traces_of_a_message_are_found_by_either_of_its_ids(cluster, rmqemu, topic) -> None:
    settings = {"namesrv": cluster.namesrv, "release": cluster.spec.release, "trace": True}
    with sync.Producer(group="shop", **settings) as producer:
        sent = producer.send(Message(topic, b"two cups", keys="A-1"))
    for id_ in (sent.msg_id, sent.offset_msg_id):
        head, _, row = rmqemu("message", "trace", id_).stdout.splitlines()
        assert head == f"{sent.msg_id}  {topic}  A-1"
        assert row.split()[1:3] == ["sent", "shop"]
        assert "8 bytes" in row
    (life,) = json_lines(rmqemu("message", "trace", sent.msg_id, "--json").stdout)
    assert (life["topic"], [step["kind"] for step in life["steps"]]) == (topic, ["sent"])
    untraced = rmqemu("message", "trace", "0" * 32, code=4)
    assert "no trace of 000" in untraced.stderr
    assert "enableMsgTrace" in untraced.stderr
    missing = rmqemu("message", "trace", sent.msg_id, "--topic=nope", code=4)
    assert "there is no topic nope" in missing.stderr


# Dead letters -------------------------------------------------------------------------------


def test_dead_letters_are_replayed_once_with_all_they_had(rmqemu, cluster, topic) -> None:
    send = ("produce", f"--topic={topic}", "--tag=paid", "--key=k", "--property=colour=red")
    sent = json_lines(rmqemu(*send, "--json", stdin="1\n2\n3\n").stdout)
    give_up(cluster, topic, "strict", 3)
    listed = json_lines(rmqemu("dlq", "list", "--json").stdout)
    assert {"group": "strict", "stored": 3, "waiting": 3} in listed
    lines = rmqemu("dlq", "list", "strict").stdout.splitlines()
    assert all(f"  {topic}  " in line for line in lines)
    assert sorted(line[-1] for line in lines) == ["1", "2", "3"]

    refused = rmqemu("dlq", "replay", "strict", code=2)
    assert refused.stderr.startswith("rmqemu: Send 3 dead letters of strict again")
    assert rmqemu("dlq", "replay", "strict", "--count=2", "--yes").stderr == "replayed 2\n"
    assert rmqemu("dlq", "replay", "strict", "--yes").stderr == "replayed 1\n"
    again = rmqemu("dlq", "replay", "strict", "--yes")
    assert again.stderr == "strict has no dead letters to replay (3 were replayed: --again)\n"

    repeated = [m for m in peek(rmqemu, topic) if "REPLAYED_FROM" in m["properties"]]
    assert sorted(m["body"] for m in repeated) == ["1", "2", "3"]
    assert {m["msg_id"] for m in repeated} == {m["msg_id"] for m in sent}
    for message in repeated:
        assert (message["tags"], message["keys"]) == ("paid", "k")
        assert message["properties"]["colour"] == "red"
        assert message["reconsume_times"] == 0
    copies = json_lines(rmqemu("message", "get", sent[0]["msg_id"], "--json").stdout)
    assert [m["topic"] for m in copies] == [topic, "%DLQ%strict", topic]


def test_a_replay_to_the_retry_topic_is_for_its_group_alone(rmqemu, cluster, topic) -> None:
    rmqemu("produce", f"--topic={topic}", stdin="x")
    give_up(cluster, topic, "alone", 1)
    rmqemu("dlq", "replay", "alone", "--to=%RETRY%alone", "--yes", "--json")
    assert len(peek(rmqemu, topic)) == 1
    consume = ("consume", f"--topic={topic}", "--group=alone", "--count=1", "--timeout=20")
    (got,) = json_lines(rmqemu(*consume, "--json").stdout)
    assert (got["topic"], got["body"]) == (topic, "x")


def test_a_dead_letter_without_an_origin_needs_a_topic() -> None:
    letter = Message("%DLQ%g", b"x")
    letter.queue_offset, letter.offset_msg_id = 7, "0A"
    with pytest.raises(NoOrigin, match="dead letter 7 does not name"):
        replayed(letter)
    again = replayed(letter, "orders")
    assert (again.topic, again.properties["REPLAYED_FROM"]) == ("orders", "0A")


def test_what_brokers_wrote_on_the_way_is_not_sent_again() -> None:
    assert {names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID, names.DELAY, names.CLUSTER} <= DROPPED
    assert not {names.KEYS, names.TAGS, names.UNIQ_KEY, "colour"} & DROPPED


# Deleting -----------------------------------------------------------------------------------


def test_a_topic_is_deleted_only_when_somebody_said_yes(rmqemu, topic) -> None:
    rmqemu("produce", f"--topic={topic}", stdin="1\n2\n")
    rmqemu("consume", f"--topic={topic}", "--group=reader", "--count=2", "--timeout=20")
    refused = rmqemu("topic", "delete", topic, code=2).stderr
    assert (
        f"Delete {topic} on broker-a, broker-b with its 2 messages, which reader consume"
        in refused
    )
    assert "add --yes" in refused
    assert len(peek(rmqemu, topic)) == 2
    rmqemu("topic", "delete", topic, "--yes")
    rmqemu("topic", "describe", topic, code=4)


def test_a_group_is_deleted_with_its_offsets_and_dead_letters(rmqemu, cluster, topic) -> None:
    rmqemu("produce", f"--topic={topic}", stdin="1\n")
    give_up(cluster, topic, "gone", 1)
    assert f"its offsets in {topic}" in rmqemu("group", "delete", "gone", code=2).stderr
    (lost,) = json_lines(rmqemu("group", "delete", "gone", "--yes", "--json").stdout)
    assert lost == {"group": "gone", "topics": [topic], "retries": 0, "dead_letters": 1}
    rmqemu("group", "describe", "gone", code=4)
    rmqemu("dlq", "list", "gone", code=4)
