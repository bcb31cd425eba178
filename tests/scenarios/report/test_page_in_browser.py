"""The page in a real browser: its contents, and its reactions to mouse and keyboard.

``Browser.tell`` fails when the page writes an error to the console or sends a network request.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.facts import (
    ActionBegan,
    BrokerRoleChanged,
    ElectionFailed,
    Fact,
    FaultBegan,
    FaultEnded,
    HalfMessageStored,
    HandlerFailed,
    MasterElected,
    NodeStarted,
    Queue,
    QueuesClaimed,
    RebalancePassed,
    TransactionChecked,
    TransactionEnded,
)
from rocketmq_emulator.facts.journal import EntryKey
from rocketmq_emulator.scenarios.report.page import write_page
from rocketmq_emulator.scenarios.report.report_data import read_report_data
from tests.support.headless import Browser
from tests.support.scenarios.journals_for_reports import (
    BOOT_US,
    GROUP,
    a_claim,
    a_commit,
    a_consumption,
    a_journal,
    a_release,
    a_send,
    a_store,
)

pytestmark = pytest.mark.sdk

S = 1_000_000
HOSTILE = "<img src=x onerror=alert(1)>"
OWNED = "Queues of billing"
METRICS = {"lost": 0.0, "overlap_s": 3.0, "overlap_s.billing": 3.0, "overlap_s.news": 1.0}


def a_run() -> str:
    """The page of one minute: two members both hold a queue for 3 s; a fault; a hostile name."""
    hostile = QueuesClaimed(HOSTILE, (Queue("other", "broker-a", 0),))
    sends = [(20 + i, "producer-1", a_send(i, took_ms=1 + i * 90)) for i in range(20)]
    stored = [(20.1 + i, "broker-a", a_store(i)) for i in range(20)]
    consumed = [(20.2 + i, "billing-1", a_consumption(i)) for i in range(20)]
    noted = [
        (0, "broker-a", NodeStarted("broker", "10.0.0.1:10911", "4.9.7")),
        (0.5, "billing-1", RebalancePassed(GROUP, "orders", 2, ("billing-1",), 2, "started")),
        (1, "billing-1", a_claim(0, 1)),
        (2, HOSTILE, hostile),
        (10, "billing-2", a_claim(0)),
        (13, "billing-1", a_release(0)),
        (15, "world", FaultBegan(1, '{"fault":"pause","node":"broker-a"}', ("broker-a",))),
        (18, "world", FaultEnded(1, "time is up", 2)),
        *sends,
        *stored,
        *consumed,
        (41, "broker-a", a_commit(20)),
        (42, "billing-1", a_release(1)),
        (50, "broker-a", HandlerFailed("10.0.0.9:1", 10, "KeyError: 'x'", "Traceback …")),
        (60, "billing-2", a_claim(1)),
    ]
    noted.append((30, "world", ActionBegan("mark", f"half time {HOSTILE}")))
    entries = a_journal(*sorted(noted, key=lambda it: it[0]))
    claims = [it for it in entries if it.fact == a_claim(0)]
    keys = tuple(EntryKey(it.mono_us, it.node, it.seq) for it in claims)
    violation = Violation(
        checker="owners",
        rule="no queue has two owners",
        what=f"orders broker-a/0 is held by two {HOSTILE}",
        mono_us=BOOT_US + 10 * S,
        node="billing-2",
        entries=keys,
    )
    judgement = Judgement(violations=(violation,), metrics=METRICS, fact_count=len(entries))
    return write_page(read_report_data(entries, lambda: judgement), f"A minute {HOSTILE}")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "run.html"
    path.write_text(a_run())
    return path


@pytest.fixture
def shown(browser: Browser, page: Path) -> Browser:
    browser.tell("open", page.as_uri())
    return browser


def read(browser: Browser, selector: str) -> str:
    text: str = browser.tell("eval", f"document.querySelector({selector!r}).innerText")
    return text


def range_s(browser: Browser) -> tuple[float, float]:
    """The part of the run that is shown, in seconds."""
    minutes = re.findall(r"(\d+):([\d.]+)", read(browser, "#range"))
    begin, end = (int(minute) * 60 + float(second) for minute, second in minutes)
    return begin, end


def sections(browser: Browser) -> list[str]:
    found: list[str] = browser.tell(
        "eval",
        "[...document.querySelectorAll('.track-section:not([hidden]) h2')]"
        ".map(head => head.firstChild.textContent)",
    )
    return found


def place(browser: Browser, title: str, at_s: float, y: int) -> list[float]:
    """The screen position of second *at_s* of the whole run, *y* px below a track's top."""
    box = browser.tell(
        "eval",
        "(() => { const section = [...document.querySelectorAll('.track-section')]"
        f".find(it => it.innerText.startsWith({title!r}));"
        "section.scrollIntoView({block: 'center'});"
        "const box = section.querySelector('canvas').getBoundingClientRect();"
        "return [box.left, box.top, box.width]; })()",
    )
    share = (at_s / 60 + 0.01) / 1.02
    return [box[0] + 176 + share * (box[2] - 184), box[1] + y]


def colours(browser: Browser, title: str, from_s: float, until_s: float, y: int) -> set[str]:
    """The colours of a track between two seconds of the whole run, *y* px below its top."""
    script = """(() => {
      const section = [...document.querySelectorAll('.track-section')]
        .find(it => it.innerText.startsWith(%r));
      const canvas = section.querySelector('canvas'), sharp = canvas.width / canvas.clientWidth;
      const x = at => (176 + (at / 60 + 0.01) / 1.02 * (canvas.clientWidth - 184)) * sharp;
      const [from, until] = [Math.ceil(x(%f)) + 3, Math.floor(x(%f)) - 3];
      const copy = new OffscreenCanvas(canvas.width, canvas.height);
      const pen = copy.getContext('2d', {willReadFrequently: true});
      pen.drawImage(canvas, 0, 0);
      const data = pen.getImageData(from, %d * sharp, until - from, 1).data;
      const found = new Set();
      for (let i = 0; i < data.length; i += 4)
        found.add('#' + [...data.slice(i, i + 3)]
          .map(n => n.toString(16).padStart(2, 0)).join(''));
      return [...found];
    })()""" % (title, from_s, until_s, y)  # noqa: UP031  # braces are the script's
    return set(browser.tell("eval", script))


def test_the_page_shows_a_section_for_each_kind_of_thing(shown: Browser) -> None:
    assert sections(shown) == [
        "Faults",
        "Actions and marks",
        "Nodes",
        f"Queues of {HOSTILE}",
        "Queues of billing",
        "Messages of billing",
        "Sends to orders",
        "Deliveries to billing",
        "Backlog of billing",
    ]
    assert "73 facts of 6 nodes in 60 s" in read(shown, "#run")
    assert range_s(shown) == (0, 60)


def test_names_of_the_journal_are_shown_as_text(shown: Browser) -> None:
    assert read(shown, "#title") == f"A minute {HOSTILE}"
    assert HOSTILE in read(shown, "#violations")
    assert shown.tell("eval", "document.images.length") == 0


def test_a_violation_leads_to_its_place_and_shows_its_facts(shown: Browser) -> None:
    shown.tell("click", "#violations a")
    begin, end = range_s(shown)
    assert begin < 10 < end
    assert end - begin < 5
    assert shown.tell("eval", "location.hash") == "#violation-1"
    assert "QueuesClaimed" in read(shown, "#rows tr.chosen")
    assert "billing-2" in read(shown, "#rows tr.chosen")
    shown.tell("key", "Escape")
    assert shown.tell("eval", "document.getElementById('facts').hidden")


def test_a_link_to_a_violation_opens_at_its_place(browser: Browser, page: Path) -> None:
    browser.tell("open", f"{page.as_uri()}#violation-1")
    begin, end = range_s(browser)
    assert begin < 10 < end < 20


def test_keys_and_buttons_zoom_and_move(shown: Browser) -> None:
    shown.tell("key", "+")
    begin, end = range_s(shown)
    assert end - begin == pytest.approx(30.6, abs=0.5)
    shown.tell("key", "ArrowRight")
    assert range_s(shown)[0] == pytest.approx(begin + 6.1, abs=0.5)
    shown.tell("click", "#out")
    shown.tell("key", "0")
    assert range_s(shown) == (0, 60)


def test_the_wheel_zooms_where_the_pointer_is_and_dragging_moves(shown: Browser) -> None:
    x, y = place(shown, OWNED, 30, 50)
    shown.tell("wheel", [x, y, -600])
    begin, end = range_s(shown)
    assert end - begin < 20
    assert (begin + end) / 2 == pytest.approx(30, abs=1)
    shown.tell("drag", [x, y, x + 200, y])
    assert range_s(shown)[0] < begin


def test_a_time_is_chosen_in_the_strip_of_the_whole_run(shown: Browser) -> None:
    box = shown.tell(
        "eval",
        "(b => [b.left, b.top, b.width])(document.getElementById('map').getBoundingClientRect())",
    )
    inner = box[2] - 184
    x, y = box[0] + 176, box[1] + 15
    shown.tell("drag", [x + inner * 0.25, y, x + inner * 0.5, y])
    begin, end = range_s(shown)
    assert begin == pytest.approx(14.7, abs=0.5)
    assert end == pytest.approx(30, abs=0.5)


def test_two_owners_are_striped_and_none_is_crossed(shown: Browser) -> None:
    first, second = "#e69f00", "#009e73"  # of billing-1 and billing-2, from their names
    assert colours(shown, OWNED, 5, 9, 40) == {first}
    assert colours(shown, OWNED, 10, 13, 48) >= {first, second}
    assert colours(shown, OWNED, 20, 30, 40) == {second}
    crossed = colours(shown, OWNED, 48, 59, 67)
    assert "#ffffff" in crossed
    assert len(crossed) > 3


def test_a_metric_is_one_row_with_what_its_value_is_over_and_those_of_0_are_names(
    shown: Browser,
) -> None:
    cells = "[...document.querySelectorAll('.metrics tr')].map(row => row.innerText.split('\\t'))"
    rows: list[list[str]] = shown.tell("eval", cells)
    assert [row[0].split("\n")[0] for row in rows] == ["metric", "ownership", "overlap_s"]
    assert rows[2][1:] == ["3 s", "largest of 2 groups", "billing 3, news 1"]
    assert read(shown, "#figures summary") == "1 more are 0"


def test_filters_leave_what_they_name(shown: Browser) -> None:
    shown.tell("choose", ["#group", HOSTILE])
    assert sections(shown) == ["Faults", "Actions and marks", "Nodes", f"Queues of {HOSTILE}"]
    shown.tell("choose", ["#group", ""])
    shown.tell("choose", ["#topic", "orders"])
    assert f"Queues of {HOSTILE}" not in sections(shown)
    shown.tell("choose", ["#node", "billing-2"])
    point = place(shown, "Nodes", 10, 20 + 9)
    shown.tell("point", point)
    assert "billing-2 at 0:10" in read(shown, "#tip")


def test_the_pointer_shows_the_facts_and_a_click_lists_them(shown: Browser) -> None:
    point = place(shown, OWNED, 12, 20 + 18 + 9)
    shown.tell("point", point)
    tip = read(shown, "#tip")
    assert "two owners for 3 s" in tip
    assert "billing-1: 0:01" in tip
    shown.tell("press", point)
    assert "QueuesReleased" in read(shown, "#rows")
    assert "reason=not mine" in read(shown, "#rows")


@pytest.mark.parametrize(
    ("title", "at_s", "y", "words"),
    [
        ("Faults", 16, 29, ["pause node=broker-a", "ended: time is up", "2 times"]),
        ("Nodes", 50, 29, ["broker-a", "HandlerFailed", "KeyError"]),
        ("Sends to orders", 39, 40, ["1.71 s", "MessageSent"]),
        ("Deliveries to billing", 30.2, 80, ["100 ms", "MessageConsumed"]),
        ("Backlog of billing", 35.5, 40, ["16 messages"]),
    ],
)
def test_each_track_says_what_is_there(
    shown: Browser, title: str, at_s: float, y: int, words: list[str]
) -> None:
    shown.tell("point", place(shown, title, at_s, y))
    tip = read(shown, "#tip")
    assert [word for word in words if word not in tip] == [], tip


@pytest.mark.parametrize(("scheme", "paper"), [("light", "255, 255, 255"), ("dark", "20, 23, 27")])
def test_colours_follow_the_system_until_they_are_chosen(
    browser: Browser, page: Path, scheme: str, paper: str
) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    browser.tell("open", page.as_uri(), scheme=scheme, width=800, height=600)
    assert browser.tell("eval", background) == f"rgb({paper})"
    browser.tell("choose", ["#theme", "dark"])
    assert browser.tell("eval", background) == "rgb(20, 23, 27)"


def test_nothing_is_wider_than_a_small_window(browser: Browser, page: Path) -> None:
    browser.tell("open", page.as_uri(), width=800, height=600)
    assert browser.tell("eval", "document.documentElement.scrollWidth") <= 800


def test_the_page_can_be_printed(shown: Browser, tmp_path: Path) -> None:
    shown.tell("paper", str(tmp_path / "run.pdf"))
    assert (tmp_path / "run.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("count", [1, 10])
def test_a_page_of_few_facts_is_whole(browser: Browser, tmp_path: Path, count: int) -> None:
    entries: list[Any] = a_journal(*[(i, "broker-a", a_store(i)) for i in range(count)])
    (tmp_path / "few.html").write_text(write_page(read_report_data(entries), "few"))
    browser.tell("open", (tmp_path / "few.html").as_uri())
    assert sections(browser) == ["Nodes"]
    assert read(browser, "#verdict") == "This journal was not judged by checkers."


@pytest.mark.parametrize("width", [1400, 390])
def test_without_a_script_the_page_shows_its_summary_and_nothing_that_needs_one(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    file = tmp_path / "page.html"
    file.write_text(a_run())
    browser.tell("open", file.as_uri(), width=width, script=False)
    shown = browser.tell("eval", "document.body.innerText")
    assert "overlap_s" in shown
    assert "need JavaScript" in shown
    for tool in ("#bar", "#map", "#tracks"):
        assert browser.tell("eval", f"document.querySelector('{tool}').offsetHeight") == 0
    assert browser.tell("eval", "document.documentElement.scrollWidth") <= width
    browser.tell("open", file.as_uri(), width=width)
    assert "need JavaScript" not in browser.tell("eval", "document.body.innerText")


def test_transactions_have_their_rows_and_a_table(browser: Browser, tmp_path: Path) -> None:
    queue = Queue("orders", "broker-a", 0)
    halves = (HalfMessageStored(queue, number, 0, "shop", f"K{number}", -1) for number in range(3))
    ended = TransactionEnded(
        queue, 0, "commit", "shop", by_check=False, stored_offset=0, uniq_key="K0"
    )
    noted = [
        *((number, "broker-a", half) for number, half in enumerate(halves)),
        (5, "broker-a", ended),
        (60, "broker-a", TransactionChecked(queue, 1, 3, 1, "", "shop", "K1")),
    ]
    page = tmp_path / "transactions.html"
    page.write_text(write_page(read_report_data(a_journal(*noted)), "Transactions"))
    browser.tell("open", page.as_uri())
    assert sections(browser)[-2:] == ["Transactions of orders", "Open transactions of orders"]
    table = "[...document.querySelectorAll('#figures tr')].map(row => row.innerText)"
    assert "orders\t3\t1\t0\t0\t1\t0\t2" in browser.tell("eval", table)
    browser.tell("choose", ["#topic", "orders"])
    assert sections(browser)[-1] == "Open transactions of orders"


def test_the_roles_of_brokers_and_elections_are_a_track(browser: Browser, tmp_path: Path) -> None:
    """A killed master, and the slave that is elected for it."""
    noted: list[tuple[float, str, Fact]] = []
    for number, node in enumerate(("broker-a", "broker-a-1")):
        noted.append((0, node, NodeStarted("broker", f"10.0.0.{number}:10911", "5.3.3")))
        role = "slave" if number else "master"
        noted.append((0, node, BrokerRoleChanged(role, number + 1, "10.0.0.0:10911", 1)))
    noted += [
        (20, "world", FaultBegan(1, '{"fault":"kill","node":"broker-a"}', ("broker-a",))),
        (25, "controller", ElectionFailed("broker-a", 2, (1,))),
        (30, "controller", MasterElected("broker-a", 2, 3, 2)),
        (30, "broker-a-1", BrokerRoleChanged("master", 2, "10.0.0.1:10911", 3)),
        (60, "broker-a-1", a_store(0)),
    ]
    page = tmp_path / "roles.html"
    page.write_text(write_page(read_report_data(a_journal(*noted)), "Roles"))
    browser.tell("open", page.as_uri())
    assert "Roles of brokers" in sections(browser)
    rows = {"elections": 29, "broker-a": 47, "broker-a-1": 65}
    found = []
    for at_s, row in ((10, "broker-a"), (10, "broker-a-1"), (40, "broker-a-1"), (30, "elections")):
        browser.tell("point", place(browser, "Roles of brokers", at_s, rows[row]))
        found.append(read(browser, "#tip"))
    assert "broker-a: master, epoch 1" in found[0]
    assert "0:00.00 – 0:20.00 (20 s)" in found[0]
    assert "broker-a-1: slave, epoch 1" in found[1]
    assert "broker-a-1: master, epoch 3" in found[2]
    assert "MasterElected" in found[3]
    blue, y = "#56b4e9", rows["broker-a"] + 6
    assert blue in colours(browser, "Roles of brokers", 10, 19, y)
    assert blue not in colours(browser, "Roles of brokers", 21, 59, y)
    browser.tell("choose", ["#node", "broker-a-1"])
    browser.tell("point", place(browser, "Roles of brokers", 40, rows["broker-a"]))
    assert "broker-a-1: master" in read(browser, "#tip")
