"""The live view, drawn from literal snapshots, in windows of every size."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.admin.overview import (
    BrokerReport,
    BrokerView,
    ClusterSnapshot,
    NodeSnapshot,
    Rates,
    overview_of,
)
from rocketmq_emulator.cli.screens.held_changes import held_changes
from rocketmq_emulator.cli.screens.live_screen import (
    ClusterEvent,
    ClusterSummary,
    LiveFrame,
    LiveScreen,
    age,
    owned_text,
    shares,
)
from rocketmq_emulator.cluster.fault_values import FaultState, Kill
from rocketmq_emulator.protocol.bodies.extensions import (
    BrokerOverview,
    GroupRow,
    MemberView,
    QueueRow,
    ReplyRule,
    ReplyRuleState,
    TopicRow,
)
from rocketmq_emulator.protocol.queues import MessageQueue

BUSY = ReplyRule(code="SEND_MESSAGE_V2", error_code="SYSTEM_BUSY", count=5)
NOW_MS = 1_795_341_400_000
FACTS = ClusterSummary("4.9.7", "127.0.0.1:9876", "", "http://127.0.0.1:9870")
SIZES = [(80, 24), (100, 30)]


def a_broker(name: str, topics: int = 1, groups: int = 1, members: int = 2) -> BrokerReport:
    found = BrokerOverview(
        tuple(TopicRow(f"orders-{number}", 4, 500, 1_000) for number in range(1, topics + 1)),
        tuple(
            GroupRow(
                f"billing-{number}",
                model="CLUSTERING",
                members=tuple(
                    MemberView(f"127.0.0.1@{m}#1795341400707{m:06}", f"127.0.0.1:{m}", "JAVA")
                    for m in range(1, members + 1)
                ),
                subscriptions={f"%RETRY%billing-{number}": "*", "orders-1": "TagA || TagB"},
                queues=tuple(QueueRow("orders-1", queue, 1_000, 990) for queue in range(4)),
            )
            for number in range(1, groups + 1)
        ),
    )
    return BrokerReport(name, "127.0.0.1:10911", "", found)


def a_node(name: str, state: str = "running", **more) -> NodeSnapshot:
    role = "broker" if name.startswith("broker") else "nameserver"
    shown = {"pid": 12_345, "messages": 1_234_567, "since_ms": NOW_MS - 8_000, **more}
    return NodeSnapshot(name, role, "127.0.0.1:10911", state=state, **shown)


def a_frame(reports, nodes, news=(), logs=(), **snapshot) -> LiveFrame:
    whole = ClusterSnapshot(
        tuple(nodes), overview_of("n", reports), **{"rates": Rates(), **snapshot}
    )
    told = [ClusterEvent(NOW_MS, text) for text in news]
    return LiveFrame(NOW_MS, 83.0, whole, told, logs)


def a_small_one(**more) -> LiveFrame:
    nodes = [a_node("namesrv", messages=None), a_node("broker-a"), a_node("broker-b")]
    return a_frame([a_broker("broker-a"), a_broker("broker-b")], nodes, **more)


def drawn(
    frame: LiveFrame, width: int, height: int, screen: LiveScreen | None = None
) -> list[str]:
    return [line.plain for line in (screen or LiveScreen(FACTS)).draw(frame, width, height)]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_facts_a_test_suite_needs_stand_together_on_top(width, height) -> None:
    lines = drawn(a_small_one(news=["a", "topic orders-1 created"]), width, height)
    assert lines[:3] == [
        "RocketMQ 4.9.7  up 1:23  Ctrl-C stops it all",
        "namesrv 127.0.0.1:9876  control http://127.0.0.1:9870  store in memory",
        f"{lines[2][:8]}  topic orders-1 created",
    ]
    assert lines[-1].endswith("  a")


def test_nodes_have_roles_where_there_are_slaves_and_a_dead_one_has_none() -> None:
    master = BrokerView("broker-a", "x", "c", epoch=1)
    slave = msgspec.structs.replace(
        master, broker_id=2, role="slave", behind_bytes=0, is_in_sync=True
    )
    nodes = [
        a_node("namesrv", messages=None),
        a_node("broker-a", "dead", replica=master),
        a_node("broker-a-1", replica=msgspec.structs.replace(master, epoch=2)),
        a_node("broker-a-2", replica=slave),
    ]
    lines = drawn(a_frame([a_broker("broker-a")], nodes), 120, 30)
    rows = [line.partition("127")[0].split() for line in lines if "127.0.0.1:10911" in line]
    assert rows == [
        ["namesrv"],
        ["broker-a"],
        ["broker-a-1", "master,", "epoch", "2"],
        ["broker-a-2", "slave", "2,", "epoch", "1", "in", "sync"],
    ]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_faults_and_reply_rules_that_hold_are_shown_the_latest_first(width, height) -> None:
    held = held_changes(
        [
            FaultState(
                fault_id=number,
                fault=Kill(node="broker-b"),
                nodes=("broker-b",),
                since_ms=NOW_MS,
                left_ms=12_300,
                acted_count=1,
            )
            for number in range(1, 5)
        ],
        {"broker-a": [ReplyRuleState(rule_id=7, applied_count=3, left_count=2, rule=BUSY)]},
        {},
    )
    lines = drawn(a_small_one()._replace(held=held), width, height)
    assert len(lines) <= height
    at = next(number for number, line in enumerate(lines) if line.startswith("holds"))
    assert lines[at + 1].split() == [
        "rule",
        "7",
        "broker-a",
        "SEND_MESSAGE_V2:",
        "SYSTEM_BUSY",
        "2",
        "times",
        "3",
    ]
    assert lines[at + 2].split() == ["fault", "4", "broker-b", "kill", "12.3", "s", "1"]
    assert lines[at + 4] == "+2 more"
    assert not any(line.startswith("holds") for line in drawn(a_small_one(), width, height))


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_journal_that_lacks_facts_is_shown_until_the_end(width, height) -> None:
    held = held_changes([], {}, {"broker-a": 156})
    lines = drawn(a_small_one()._replace(held=held), width, height)
    (line,) = [line for line in lines if line.startswith("journal")]
    assert " ".join(line.split()) == "journal broker-a its disk was full, facts are missing 156"


def test_a_store_far_away_has_a_line_of_its_own() -> None:
    screen = LiveScreen(FACTS._replace(store="/var/lib/rocketmq/projects/" + "shop/" * 12))
    lines = drawn(a_small_one(), 80, 24, screen)
    assert lines[1] == "namesrv 127.0.0.1:9876  control http://127.0.0.1:9870"
    assert lines[2].startswith("store /var/lib/rocketmq/projects/shop/")
    assert lines[2].endswith("…")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_dead_and_a_silent_node_say_since_when_and_keep_their_figures_dimmed(
    width, height
) -> None:
    nodes = [
        a_node("broker-a", "dead", pid=None, ending="was killed by signal 9"),
        a_node("broker-b", "silent"),
        a_node("broker-c"),
    ]
    screen = LiveScreen(FACTS)
    lines = screen.draw(a_frame([a_broker("broker-c")], nodes), width, height)
    dead, silent, well = (next(x for x in lines if x.plain.startswith(n.name)) for n in nodes)
    clock = silent.plain.split("since ")[1][:8]
    assert f"dead since {clock} (8 s)" in dead.plain
    assert dead.plain.endswith(": killed by signal 9") == (width == 100)
    word = "not answering" if width == 100 else "silent"
    assert silent.plain.endswith(f"{word} since {clock} (8 s)")
    for line, is_dim in ((dead, True), (silent, True), (well, False)):
        at = line.plain.index("1,234,567")
        assert any(s.style == "dim" and s.start <= at < s.end for s in line.spans) == is_dim


def test_a_member_is_shown_with_the_queues_it_has() -> None:
    client = "127.0.0.1@1#1795341400707000001"
    owned = {("billing-1", client): tuple(MessageQueue("orders-1", "broker-a", n) for n in (0, 1))}
    lines = drawn(a_small_one(owned=owned), 100, 30)
    mine, other = (line for line in lines if line.startswith("  127.0.0.1@"))
    assert mine.split()[-2:] == ["orders-1", "broker-a/0-1"]
    assert other.split()[-1] == "JAVA"


@pytest.mark.parametrize(
    ("queues", "versions"),
    [
        ([("t", "b", 0)], ("t b/0", "b/0", "1 queue")),
        ([("t", "b", 3), ("t", "b", 0), ("t", "b", 1), ("t", "c", 7)], ("t b/0-1,3 c/7",)),
        ([("t", "b", 0), ("u", "b", 0), ("%RETRY%g", "b", 0)], ("t b/0, u b/0", "2 queues")),
    ],
)
def test_queues_are_named_in_few_words(queues, versions) -> None:
    found = owned_text([MessageQueue(*queue) for queue in queues])
    assert found[: len(versions)] == versions


def test_columns_do_not_jump_when_figures_grow_and_a_rate_comes() -> None:
    screen = LiveScreen(FACTS)
    busy = Rates({"broker-a": 99_999.0}, {"orders-1": 99_999.0}, {"billing-1": 99_999.0})
    before = drawn(a_small_one(), 80, 24, screen)
    after = drawn(a_small_one(rates=busy), 80, 24, screen)
    again = drawn(a_small_one(), 80, 24, screen)
    assert before == again
    heads = [[line for line in lines if " in/s " in line] for lines in (before, after)]
    assert heads[0] == heads[1]
    assert "99,999" in "\n".join(after)


def a_wide_one(news=("ready",)) -> LiveFrame:
    names = [f"broker-{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    nodes = [a_node("namesrv", messages=None), *map(a_node, names)]
    nodes[20] = a_node(names[19], "dead", pid=None)
    reports = [a_broker(name, topics=200, groups=100) for name in names]
    rates = Rates({}, {"orders-150": 5.0}, {})
    return a_frame(reports, nodes, news, rates=rates)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_of_a_wide_cluster_the_interesting_is_shown_and_the_rest_counted(width, height) -> None:
    lines = drawn(a_wide_one(), width, height)
    assert len(lines) <= height
    heads = [lines.index(next(x for x in lines if x.startswith(n))) for n in ("node", "topic")]
    assert lines[heads[0] + 1].startswith("broker-t")
    assert lines[heads[1] + 1].startswith("orders-150")
    assert lines[heads[1] + 2].startswith("orders-1 ")
    assert lines[heads[1] + 3].startswith("orders-2 ")
    assert "26 brokers" in lines[heads[1] + 1]
    more = [line for line in lines if line.startswith("+")]
    nodes, topics, groups = (int(more[at].strip(" +more")) for at in range(3))
    rows = sum(line.startswith(("broker-", "namesrv ")) for line in lines[4:])
    assert nodes + rows == 27
    assert topics + sum(line.startswith("orders-") for line in lines) == 200
    assert groups + sum(line.startswith("billing-") for line in lines) == 100


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("height", [3, 8, 12, 19, 24, 30, 80])
@pytest.mark.parametrize("frame", [a_wide_one(), a_small_one(logs=["x" * 300] * 9)])
def test_nothing_is_wider_or_higher_than_the_window_and_what_is_cut_says_so(
    width, height, frame
) -> None:
    whole = {line.rstrip() for line in drawn(frame, 1_000, height)}
    lines = LiveScreen(FACTS).draw(frame, width, height)
    assert len(lines) <= height
    assert all(line.cell_len <= width for line in lines)
    if height >= 12:
        tables = [line for line in lines if not line.plain.startswith("xx")]  # logs are wrapped
        long = [line.plain for line in tables if line.cell_len == width]
        assert all("…" in line or line in whole or width >= 80 for line in long)


def test_a_log_line_stays_at_the_bottom_whatever_else_there_is() -> None:
    frame = a_wide_one()._replace(logs=["broker-a StoreRefused"])
    for width, height in SIZES:
        assert drawn(frame, width, height)[-1] == "broker-a StoreRefused"


def test_a_long_log_line_is_wrapped_between_words_and_read_to_its_end() -> None:
    told = "broker-a LogTailCut " + "what was lost can only come from a copy of the store; " * 3
    frame = a_wide_one()._replace(logs=[told.strip()])
    for width, height in SIZES:
        lines = drawn(frame, width, height)
        rows = lines[lines.index(next(row for row in lines if row.startswith("broker-a Log"))) :]
        assert " ".join(rows) == told.strip()


def test_a_group_that_nobody_works_off_comes_before_the_busy_and_the_idle() -> None:
    report = a_broker("broker-a", groups=60, members=1)
    groups = list(report.found.groups)
    idle = [QueueRow("orders-1", 0, 9, 9)]
    for at, group in enumerate(groups):
        queues = group.queues if at in (40, 50) else tuple(idle)
        members = () if at == 50 else group.members
        groups[at] = GroupRow(group.name, "", members, group.subscriptions, queues)
    found = BrokerOverview(report.found.topics, tuple(groups))
    frame = a_frame([BrokerReport("broker-a", "x", "", found)], [a_node("broker-a")])
    lines = [line.split()[0] for line in drawn(frame, 80, 24) if line.startswith("billing-")]
    assert lines[:3] == ["billing-51", "billing-41", "billing-1"]


def test_a_cluster_with_nothing_in_it_says_so() -> None:
    lines = drawn(a_frame([BrokerReport("broker-a", "x", "")], [a_node("broker-a")]), 80, 24)
    assert "  no topics yet" in lines
    assert "  no groups yet" in lines


def test_room_is_dealt_out_to_those_who_want_some() -> None:
    assert shares([3, 200, 100, 0], 20) == [3, 9, 8, 0]
    assert shares([1, 2], 20) == [1, 2]
    assert shares([5, 5], 0) == [0, 0]
    assert shares([5, 5], -3) == [0, 0]


@pytest.mark.parametrize(
    ("ms", "text"), [(-5, "0 s"), (8_999, "8 s"), (125_000, "2 min"), (7_300_000, "2 h")]
)
def test_an_age_is_a_number_and_one_unit(ms, text) -> None:
    assert age(ms) == text
