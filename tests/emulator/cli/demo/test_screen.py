"""The demo's screen, drawn from literal states: its size, its contents, its colours."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from rocketmq_emulator.cli.demo import timeline
from rocketmq_emulator.cli.demo.ledger import Bar, Ledger, QueueHistory
from rocketmq_emulator.cli.demo.run import KILLED
from rocketmq_emulator.cli.demo.screen import (
    OWNER_STYLES,
    DemoDisplay,
    DemoScreen,
    event_paragraph,
    height,
    marks,
    strip,
)
from rocketmq_emulator.cli.demo.timeline import GROUP, DemoEvent, DemoPlan, EventTemplate
from rocketmq_emulator.facts import Queue

NOW_S = 1_000
KNOWN = {
    "consumer": "consumer-b",
    "broker": "broker-b",
    "other": "broker-a",
    "heartbeat_s": 30.0,
    "patience_s": 60.0,
    "lines": 1_234_567,
    "sent": 1_234_567,
    "waiting": 1_234_567,
    "duplicates": 12_345,
}
MOMENTS = [moment for moment in vars(timeline).values() if isinstance(moment, EventTemplate)]
SIZES = [(80, 24), (100, 30)]


class ARun(msgspec.Struct):
    """The attributes of a run that a screen reads."""

    ledger: Ledger
    broker_state: dict[str, str]
    events: list[DemoEvent] = []
    now_s: float = 31.0
    lines: int = 2_000
    members: dict = {}
    plan: DemoPlan = DemoPlan()


class AMember(msgspec.Struct):
    state: str


def an_event(number: int) -> DemoEvent:
    return DemoEvent(NOW_S * 1000, number / 10, f"consumer-a takes queue {number}")


def a_queue(*deliveries: tuple[int, int], by: str = "consumer-a") -> QueueHistory:
    """*deliveries*: a second, and the number of messages delivered in it."""
    return QueueHistory(bars={at_s: Bar(n, by) for at_s, n in deliveries})


def a_run(*events: DemoEvent, broker_b: str = "running") -> ARun:
    """A run with the queues of both brokers and all clients."""
    ledger = Ledger()
    for broker in ("broker-a", "broker-b"):
        for number in range(4):
            queue = a_queue((NOW_S - 3, 10), (NOW_S - 1, 20))
            queue.delivered, queue.waiting = 1_250_000, 250_000
            ledger.queues[Queue("demo", broker, number)] = queue
            ledger.owners.claim("consumer-a", GROUP, Queue("demo", broker, number), 0)
    ledger.delivered = {str(number) for number in range(8 * 3 * 10)}
    names = ("producer", "consumer-a", "consumer-b", "consumer-c")
    members = {name: AMember("running") for name in names}
    members["consumer-b"].state = KILLED
    states = {"broker-a": "running", "broker-b": broker_b}
    return ARun(ledger, states, list(events), members=members)


def frame(run: ARun, columns: int = 80, rows: int = 24) -> list[str]:
    lines = DemoScreen(run).frame(NOW_S * 1000, columns, rows)
    return [line.plain for line in lines]


# Fitting the window -----------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "rows"), SIZES)
@pytest.mark.parametrize("count", [0, 1, 9, 60])
def test_a_frame_fits_its_window_and_ends_with_the_newest_event(columns, rows, count) -> None:
    events = [timeline.CONSUMER_KILLED.event(0, 1.0, **KNOWN), *map(an_event, range(count))]
    run = a_run(*events)
    lines = frame(run, columns, rows)
    assert len(lines) <= rows
    assert max(map(len, lines)) <= columns
    assert lines[-1].endswith(events[-1].text)
    assert len(lines) == rows or count < 60


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_no_row_is_wasted_on_blanks(columns, rows) -> None:
    lines = frame(a_run(timeline.SENDING_STARTS.event(0, 1.0, **KNOWN)), columns, rows)
    assert all(line.strip() for line in lines)


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.text)
def test_what_is_shown_and_why_is_there_to_the_last_word(moment) -> None:
    event = moment.event(0, 1.0, **KNOWN)
    lines = frame(a_run(event, *map(an_event, range(20))))
    assert lines[1] == f"Now: {event.text} (30 s ago)"
    assert lines[2] == f"     {event.why}"


def test_a_long_error_is_cut_with_an_ellipsis_and_hides_no_other_event() -> None:
    long = DemoEvent(0, 1.0, "a send fails, " + "for many reasons " * 10, is_bad=True)
    lines = frame(a_run(long, an_event(1)))
    assert lines[-2].endswith("…")
    assert lines[-1].endswith("takes queue 1")


def test_a_cell_of_the_longest_name_and_state_leaves_a_blank() -> None:
    cells = frame(a_run(broker_b=KILLED))[13:15]
    assert [cell.split() for cell in cells] == [
        ["namesrv", "running", "broker-a", "running", "broker-b", "killed"],
        ["producer", "0/s", "consumer-a", "0/s", "consumer-b", "killed", "consumer-c", "0/s"],
    ]


@pytest.mark.parametrize("columns", [30, 60])
def test_lines_for_narrow_windows_are_folded_between_words(columns) -> None:
    event = timeline.BROKER_KILLED.event(0, 12.3, **KNOWN)
    lines = [line.plain for line in event_paragraph(event, columns)]
    assert max(map(len, lines)) <= columns
    assert " ".join(" ".join(lines).split()) == f"12.3 s {event.text} {event.why}"


# Contents ---------------------------------------------------------------------------------


def test_a_strip_has_bars_and_dots_where_nothing_came() -> None:
    queue = a_queue((NOW_S - 6, 10), (NOW_S - 5, 20), (NOW_S - 4, 2), (NOW_S - 1, 300))
    shown = strip(queue, NOW_S, usual=10, is_cut=False)
    assert shown.plain == "▃▅▁··█".rjust(30)


def test_bars_grow_with_the_rate() -> None:
    bars = [height(share) for share in (0.1, 0.5, 1.0, 2.0, 3.0, 6.0, 30.0)]
    assert bars == ["▁", "▂", "▃", "▅", "▆", "▇", "█"]


def test_each_bar_has_the_colour_of_who_delivered() -> None:
    queue = a_queue((NOW_S - 2, 10), by="consumer-b")
    queue.bars[NOW_S - 1] = Bar(10, "consumer-c")
    spans = strip(queue, NOW_S, usual=10, is_cut=False).spans
    assert [span.style for span in spans] == ["magenta", "cyan"]


@pytest.mark.parametrize(("is_cut", "style"), [(True, "red"), (False, "dim")])
def test_silence_at_the_end_is_a_gap_only_when_something_should_come(is_cut, style) -> None:
    spans = strip(a_queue((NOW_S - 2, 10)), NOW_S, usual=10, is_cut=is_cut).spans
    assert spans[-1].style == style


def test_marks_stand_over_the_seconds_of_kills_and_returns() -> None:
    events = [
        timeline.CONSUMER_KILLED.event((NOW_S - 31) * 1000, 0, **KNOWN),  # too long ago
        timeline.BROKER_KILLED.event((NOW_S - 3) * 1000 + 999, 0, **KNOWN),
        timeline.BROKER_RETURNS.event((NOW_S - 1) * 1000, 0, **KNOWN),
        timeline.SENDING_ENDS.event((NOW_S - 1) * 1000, 0, **KNOWN),
    ]
    assert marks(events, NOW_S, bar_ms=1_000).plain == "×─↑".rjust(30, "─")


@pytest.mark.parametrize(
    ("owners", "shown"),
    [
        ([], "nobody"),
        (["consumer-b"], "consumer-b"),
        (["consumer-c", "consumer-a"], "a and c"),
    ],
)
def test_a_queue_may_have_one_owner_none_or_two(owners, shown) -> None:
    run = a_run()
    run.ledger.owners.end("consumer-a")
    for owner in owners:
        run.ledger.owners.claim(owner, GROUP, Queue("demo", "broker-a", 0), 0)
    assert frame(run)[5].startswith(f"broker-a/0  {shown}  ")


def drawn(run: ARun, **options) -> str:
    console = Console(width=80, height=24, file=StringIO(), force_terminal=True, **options)
    for line in DemoScreen(run).frame(NOW_S * 1000, 80, 24):
        console.print(line)
    return console.file.getvalue()


@pytest.mark.parametrize(("state", "is_dim"), [("running", False), (KILLED, True)])
def test_the_queues_of_a_dead_broker_look_dead(state, is_dim) -> None:
    text = drawn(a_run(broker_b=state), color_system="standard")
    row = next(line for line in text.splitlines() if "broker-b/0" in line)
    assert row.startswith("\x1b[2m") == is_dim
    assert ("\x1b[33mconsumer-a" in row) != is_dim


def test_no_two_owners_look_alike_nor_like_nobody() -> None:
    assert len({*OWNER_STYLES.values(), "red"}) == 4


class Latin1(StringIO):
    encoding = "iso-8859-1"


def test_a_terminal_without_these_characters_gets_plain_ones() -> None:
    out = Latin1()
    events = [timeline.BROKER_KILLED.event((NOW_S - 1) * 1000, 1.0, **KNOWN)]
    display = DemoDisplay(a_run(*events), Console(width=80, file=out, force_terminal=False))
    display.show()
    display.print(DemoScreen(a_run(*events)).frame(NOW_S * 1000, 80, 24))
    assert out.getvalue().isascii()
    assert "-.=" in out.getvalue()
    assert "-----x" in out.getvalue()
