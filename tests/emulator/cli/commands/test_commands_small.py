"""Simple uses of ``produce``, ``consume``, ``topic``, ``status``; the cluster is in a thread."""

from __future__ import annotations

import json

import pytest

from rocketmq_emulator.cli.options import shared
from rocketmq_emulator.cluster.fault_values import ReadOnly
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from tests.support.cli.in_process import commands

LINES = "hello\n\nwörld\r\nno newline at the end"


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(ClusterSpec()) as running:
        yield running


@pytest.fixture
def rmqemu(cluster):
    return commands(NAMESRV_ADDR=cluster.namesrv)


def json_lines(text: str) -> list:
    return [json.loads(line) for line in text.splitlines()]


def test_lines_go_in_and_come_out(rmqemu) -> None:
    rmqemu("topic", "create", "letters", "--queues", "1")
    sent = rmqemu("produce", "--topic", "letters", "--tag", "T", "--key", "k", stdin=LINES)
    assert sent.stderr == "sent 3, skipped 1 empty lines\n"
    got = rmqemu(
        "consume", "--topic", "letters", "--group", "g1", "--count", "3", "--timeout", "20"
    )
    assert sorted(got.stdout.splitlines()) == ["hello", "no newline at the end", "wörld"]


def test_json_says_all_about_a_message(rmqemu) -> None:
    rmqemu("topic", "create", "facts", "--queues", "1")
    (sent,) = json_lines(rmqemu("produce", "--topic=facts", "--tag=T", "--json", stdin="x").stdout)
    assert sent["status"] == "SEND_OK"
    got = rmqemu("consume", "--topic=facts", "--group=g2", "--count=1", "--timeout=20", "--json")
    (message,) = json_lines(got.stdout)
    assert message["body"] == "x"
    assert message["tags"] == "T"
    for name in ("topic", "broker", "queue", "offset", "msg_id"):
        assert message[name] == sent[name]


def test_a_file_is_sent_line_by_line(rmqemu, tmp_path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\xff\xfe\n" + b"long " * 10_000 + b"\n")
    rmqemu("topic", "create", "odd", "--queues", "1")
    rmqemu("produce", "--topic", "odd", str(path))
    got = rmqemu("consume", "--topic=odd", "--group=g3", "--count=2", "--timeout=20", "--json")
    bodies = {m.get("body", m.get("body_base64")) for m in json_lines(got.stdout)}
    assert bodies == {"//4=", "long " * 10_000}


def test_a_tag_selects(rmqemu) -> None:
    rmqemu("topic", "create", "mixed", "--queues", "1")
    for tag in ("A", "B"):
        rmqemu("produce", "--topic=mixed", f"--tag={tag}", stdin=f"for {tag}")
    got = rmqemu("consume", "--topic=mixed", "--group=g4", "--tags=B", "--count=1", "--timeout=20")
    assert got.stdout == "for B\n"


def test_what_was_consumed_is_committed_and_a_group_can_be_sent_back(rmqemu) -> None:
    rmqemu("topic", "create", "again", "--queues", "1")
    rmqemu("produce", "--topic=again", stdin="one\ntwo\n")
    rmqemu("consume", "--topic=again", "--group=g5", "--count=2", "--timeout=20")
    group = json.loads(rmqemu("group", "describe", "g5", "--json").stdout)
    assert sum(q["committed"] for q in group["queues"] if q["topic"] == "again") == 2
    moved = json_lines(rmqemu("group", "reset", "g5", "--topic=again", "--json").stdout)[0]
    assert [queue["offset"] for queue in moved] == [0, 0]
    got = rmqemu("consume", "--topic=again", "--group=g5", "--count=2", "--timeout=20")
    assert sorted(got.stdout.splitlines()) == ["one", "two"]


def test_fewer_messages_than_asked_for_is_a_failure_that_says_so(rmqemu) -> None:
    rmqemu("topic", "create", "empty")
    done = rmqemu("consume", "--topic=empty", "--group=g6", "--count=1", "--timeout=0.2", code=1)
    assert done.stderr == "rmqemu: only 0 of 1 messages came within 0.2 s\n"


def test_topics_are_listed_and_described(rmqemu, cluster) -> None:
    rmqemu("topic", "create", "listed", "--queues", "2", "--perm", "r")
    topics = json.loads(rmqemu("topic", "list", "--json").stdout)
    listed = next(topic for topic in topics if topic["name"] == "listed")
    assert (listed["queues"], listed["brokers"]) == (4, ["broker-a", "broker-b"])
    assert "listed" in rmqemu("topic", "list").stdout
    queues = json.loads(rmqemu("topic", "describe", "listed", "--json").stdout)["queues"]
    assert [(q["broker"], q["queue"], q["next"]) for q in queues] == [
        ("broker-a", 0, 0),
        ("broker-a", 1, 0),
        ("broker-b", 0, 0),
        ("broker-b", 1, 0),
    ]
    assert "consumed by: nobody" in rmqemu("topic", "describe", "listed").stdout


def test_status_in_a_pipe_is_plain_text_without_colours(rmqemu, cluster) -> None:
    text = rmqemu("status").stdout
    assert cluster.brokers["broker-a"] in text
    assert "\x1b" not in text


def test_a_broker_that_does_not_answer_is_named_and_the_others_are_shown(
    rmqemu, cluster, monkeypatch
) -> None:
    monkeypatch.setattr(shared, "OVERVIEW_CALL_MS_MAX", 500)
    rmqemu("topic", "create", "half-seen")
    cluster.pause("broker-b")
    done = {what: rmqemu(*what.split(), code=5) for what in ("status", "topic list", "group list")}
    cluster.resume("broker-b")
    where = cluster.brokers["broker-b"]
    complaint = f"rmqemu: broker-b at {where} does not answer: its data is not shown\n"
    assert {each.stderr for each in done.values()} == {complaint}
    assert "does not answer" in done["status"].stdout
    assert "half-seen" in done["topic list"].stdout
    assert "group" in done["group list"].stdout
    assert rmqemu("status").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("topic", "describe", "nope"), 4, "there is no topic nope: make it with `rmqemu"),
        (("consume", "--topic", "nope"), 4, "there is no topic nope: make it with `rmqemu"),
        (("consume", "--topic", "letter"), 4, "there is no topic letter; did you mean letters?"),
        (("topic", "delete", "letter", "--yes"), 4, "letter; did you mean letters?"),
        (("group", "describe", "nope"), 4, "there is no group nope: see `rmqemu group list`"),
        (("group", "reset", "nope", "--topic=t"), 4, "there is no group nope"),
        (("group", "reset", "x", "--topic=t", "--to=soon"), 2, "an age such as 10m"),
        (("topic", "create", "x", "--perm=all"), 2, "--perm is one of r, w, rw"),
        (("topic", "create", "b@d"), 1, "illegal characters"),
        (("consume", "--topic=x", "--from=here"), 2, "--from is earliest, latest or a time"),
        (("produce", "--topic=x", "/nothing"), 2, "/nothing: No such file or directory"),
        (("produce", "--topic=b@d"), 1, "line 1: The specified topic[b@d]"),
        (("demo", "--input=/dev/null"), 2, "/dev/null has no line with anything in it to send"),
        (("status", "--namesrv=127.0.0.1:1"), 3, "no NameServer answers at 127.0.0.1:1"),
        (("topic", "list", "-n", "127.0.0.1:1"), 3, "start one with `rmqemu up`"),
        (
            ("produce", "--topic=x", "-n=127.0.0.1:1"),
            3,
            "no NameServer answers at 127.0.0.1:1",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line_and_an_exit_code(
    rmqemu, arguments, code, complaint
) -> None:
    done = rmqemu(*arguments, stdin="a line\n", code=code)
    assert done.stderr.startswith("rmqemu: ")
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_cluster_without_brokers_takes_no_topic_and_says_what_it_lacks(rmqemu) -> None:
    with EmbeddedCluster(ClusterSpec(brokers=0)) as bare:
        namesrv = f"--namesrv={bare.namesrv}"
        assert "no brokers yet" in rmqemu("status", namesrv).stdout
        assert "no topics yet" in rmqemu("topic", "list", namesrv).stdout
        assert "no groups yet" in rmqemu("group", "list", namesrv).stdout
        done = rmqemu("topic", "create", "orders", namesrv, code=1)
    assert done.stderr.startswith("rmqemu: there is no broker to make it on")


def test_a_topic_is_not_made_in_silence_without_a_broker_that_is_down(rmqemu, cluster) -> None:
    cluster.open_control()
    cluster.announce_control()
    cluster.kill("broker-b")
    try:
        done = rmqemu("topic", "create", "partly", "--json")
        made = json.loads(done.stdout)
        assert (made["brokers"], made["missing"]) == (["broker-a"], {"broker-b": "dead"})
        assert done.stderr == (
            "rmqemu: partly was not made on broker-b, which is dead: make it again when it runs\n"
        )
        cluster.kill("broker-a")
        done = rmqemu("topic", "create", "partly", code=1)
        assert "broker-a, which is dead, and broker-b, which is dead" in done.stderr
    finally:
        cluster.start()
        cluster._close_control()
    assert rmqemu("topic", "create", "partly").stderr == ""


def test_a_broker_in_the_route_that_does_not_answer_lacks_the_topic(rmqemu, cluster) -> None:
    rule_id = cluster.set_reply_rule("broker-a", ReplyRule(code=17, cut_connection=True))
    try:
        done = rmqemu("topic", "create", "half-made", code=5)
    finally:
        cluster.remove_reply_rule("broker-a", rule_id)
    assert done.stdout == "half-made: 4 queues on each of broker-b\n"
    assert "half-made was not made on broker-a, which does not answer" in done.stderr


def test_status_tells_which_topics_nobody_can_write_to(rmqemu, cluster) -> None:
    rmqemu("topic", "create", "kept", "--queues", "2")

    def kept() -> dict:
        topics = json.loads(rmqemu("status", "--json").stdout)["topics"]
        return next(topic for topic in topics if topic["name"] == "kept")

    with cluster.under(ReadOnly(broker="broker-a")):
        found = kept()
        assert "no-load ratio" in rmqemu("status").stdout
    assert found["no_load_ratio"] == 1 / len(found["brokers"])
    assert found["read_only"] == ["broker-a"]
    assert kept()["no_load_ratio"] == 0
