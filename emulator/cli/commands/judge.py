"""``judge``: checks clients in any language against RocketMQ's rules, from the servers' facts.

It follows the facts of a running ``up``, or reads journals.  It sends nothing to the clients.
The verdict names the clients, the broken rules with their frames, and the rules that were judged.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import wrap
from types import FrameType
from typing import Annotated

import msgspec
import typer

from rocketmq_emulator.checks.judging.invariants import INVARIANTS
from rocketmq_emulator.checks.judging.reading import (
    BadJournal,
    Skipped,
    entries_in,
    readable_entries,
)
from rocketmq_emulator.checks.judging.server_verdict import (
    BrokenRule,
    SdkClient,
    SdkJudge,
    SdkVerdict,
    kinds_to_follow,
)
from rocketmq_emulator.checks.servers.frames import SeenFrame
from rocketmq_emulator.checks.servers.table import SDK_MONITORS
from rocketmq_emulator.checks.state.violation import Violation
from rocketmq_emulator.cli.commands.nodes import ControlAt
from rocketmq_emulator.cli.options.errors import (
    FAILED,
    NOT_FOUND,
    BadUse,
    errors_as_exit_codes,
    fail,
    print_error,
    print_note,
)
from rocketmq_emulator.cli.options.shared import (
    NAMESRV,
    AsJson,
    Namesrv,
    duration_s,
    make_console,
    show_json,
)
from rocketmq_emulator.cli.screens.columns import clean
from rocketmq_emulator.cluster.control.client import ControlClient, find_control
from rocketmq_emulator.facts.journal import Entry

LINES_MAX = 100_000  # waiting to be judged; above it the reading thread waits
BATCH_S = 0.2  # how often new violations are shown
BATCH_LINES_MAX = 2_000
DRAIN_S = 0.6  # how long late facts are read when the time is up, or after Ctrl-C

JudgedJournals = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="JOURNAL…",
        help="Journals of servers, or folders of them (up --journal DIR); none: a running `up`.",
    ),
]
How = Annotated[
    float | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=duration_s,
        show_default="until Ctrl-C",
        help="How long, such as 60s.",
    ),
]


def judge(
    journals: JudgedJournals = None,
    how_long: How = None,
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    """Show which client rules an SDK breaks.

    It reads the servers' facts about consumers in any language.  Start it before the client.
    Exit code 0: no rule is broken; 1: a rule is, or the journals are not whole; 4: no client.
    """
    with errors_as_exit_codes():
        skipped = Skipped()
        sdk_judge = SdkJudge(skipped)
        if journals:
            if how_long:
                raise BadUse("--for is for a running cluster; journals are read to their end")
            try:
                sdk_judge.take(readable_entries(journals, skipped))
            except BadJournal as error:
                raise BadUse(str(error)) from None
        else:
            _follow(sdk_judge, find_control(control, namesrv), how_long, quiet=as_json)
        verdict = sdk_judge.verdict()
        if as_json:
            show_json(verdict)
        else:
            _show(verdict)
    if not verdict.clients:
        text = "no consumer connected: start the judge first, then the client"
        raise fail("the journals have no consumer" if journals else text, NOT_FOUND)
    if not verdict.is_good:
        raise typer.Exit(FAILED)


def _follow(
    sdk_judge: SdkJudge, caller: ControlClient, for_s: float | None, *, quiet: bool
) -> None:
    """Judge facts until the time is up, Ctrl-C, or the end of the cluster."""
    feed = _Feed(caller)
    with suppress(KeyboardInterrupt):  # the verdict so far is shown
        feed.start()
        until = f"for {for_s:g} s" if for_s else "until Ctrl-C"
        print_note(f"judging the clients of the cluster at {caller.address} {until}")
        with _first_interrupt() as is_interrupted:
            _take(sdk_judge, feed, for_s, is_interrupted, quiet=quiet)
            # Facts that servers noted just before are still on their way.
            _take(sdk_judge, feed, DRAIN_S, threading.Event(), quiet=quiet)
    if feed.has_ended and not quiet:
        print_error("the cluster has ended" + (f": {feed.error}" if feed.error else ""))


def _take(
    sdk_judge: SdkJudge,
    feed: _Feed,
    for_s: float | None,
    is_interrupted: threading.Event,
    *,
    quiet: bool,
) -> None:
    """Judge the facts of the next *for_s*, or until Ctrl-C or the end of the cluster."""
    ends_s = None if for_s is None else time.monotonic() + for_s
    while not (feed.has_ended or is_interrupted.is_set()):
        if ends_s is not None and time.monotonic() >= ends_s:
            return
        for violation in sdk_judge.take(feed.entries(BATCH_S)):
            if not quiet:
                print_note(_violation_line(violation))


@contextmanager
def _first_interrupt() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets, so no fact is half judged; the second interrupts."""
    is_interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield is_interrupted  # only the main thread gets Ctrl-C
        return
    before = signal.getsignal(signal.SIGINT)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        is_interrupted.set()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield is_interrupted
    finally:
        signal.signal(signal.SIGINT, before)


class _Feed(threading.Thread):
    """Reads the facts in a thread, and renumbers them: only some kinds of facts are followed."""

    def __init__(self, caller: ControlClient) -> None:
        super().__init__(daemon=True)
        self._caller = caller
        self._lines: queue.Queue[bytes | Exception | None] = queue.Queue(LINES_MAX)
        self._seqs: dict[str, int] = {}
        self.has_ended = False
        self.error: Exception | None = None  # that ended it, after the start

    def start(self) -> None:
        """Start the thread and wait until every node is followed.  Raises ``AdminError``."""
        super().start()
        first = self._lines.get()
        if isinstance(first, Exception):
            raise first

    def run(self) -> None:
        try:
            for line in self._caller.facts(kinds_to_follow()):
                self._lines.put(line)
            self._lines.put(None)
        except Exception as error:  # noqa: BLE001  # ``start`` raises it, ``entries`` ends
            self._lines.put(error)

    def entries(self, wait_s: float) -> Iterator[Entry]:
        """The entries that have arrived; waits *wait_s* at most for the first."""
        wait = True
        for _ in range(BATCH_LINES_MAX):
            try:
                line = self._lines.get(wait, wait_s if wait else None)
            except queue.Empty:
                return
            wait = False
            if line is None or isinstance(line, Exception):
                self.has_ended, self.error = True, line
                return
            if line:
                yield from self._entry(line)

    def _entry(self, line: bytes) -> Iterator[Entry]:
        note = msgspec.json.decode(line, type=_FeedNote)
        if note.lost:  # a gap in the numbers: lost facts are not judged
            self._seqs[note.node] = self._seqs.get(note.node, 0) + note.lost
        elif not (note.followed_again or note.error):
            for entry in entries_in([line], "the feed of facts"):
                seq = self._seqs[entry.node] = self._seqs.get(entry.node, 0) + 1
                yield msgspec.structs.replace(entry, seq=seq)


class _FeedNote(msgspec.Struct):
    """The fields of a line that is not a fact; a fact has ``node`` only."""

    node: str
    lost: int = 0
    followed_again: bool = False
    error: str = ""


def _violation_line(violation: Violation) -> str:
    at = time.strftime("%H:%M:%S")
    return clean(f"{at}  {violation.node} breaks {violation.checker}: {violation.what}")


def _show(verdict: SdkVerdict) -> None:
    console = make_console()
    for line in verdict_lines(verdict, console.width):
        console.print(line, markup=False, highlight=False)


# The verdict as text ------------------------------------------------------------------


WIDTH_MAX = 100
INDENT = "    "
NOT_JUDGED_LINES_MAX = 2
CUT = " … (all: --json)"
INVARIANT_TEXTS = {each.number: each.text for each in INVARIANTS}


def verdict_lines(verdict: SdkVerdict, width: int) -> Iterator[str]:
    """The verdict as lines of at most *width*, if names are not too long."""
    width = min(width, WIDTH_MAX)
    count = len(verdict.clients)
    told = f"{count} consumer{'s' * (count != 1)}, {verdict.fact_count} facts"
    yield f"{told} in {verdict.seconds:.1f} s"
    for client in verdict.clients:
        yield from _folded(_client(client, verdict), width, "  ")
    for rule in verdict.broken:
        yield ""
        yield from _rule(rule, width)
    yield ""
    yield from _missing(verdict, width)
    yield from _coverage(verdict, width)


def _client(client: SdkClient, verdict: SdkVerdict) -> str:
    groups = ", ".join(f"{group} ({how})" for group, how in client.groups.items())
    broken = sum(rule.client == client.client for rule in verdict.broken)
    said = f"breaks {broken} rule{'s' * (broken != 1)}" if broken else "breaks no rule"
    who = f"{client.client}, {client.language} {client.version}"
    return f"{who}, {client.request_count} requests, {groups}: {said}"


def _rule(rule: BrokenRule, width: int) -> Iterator[str]:
    times = f"{rule.count} time{'s' * (rule.count != 1)}"
    yield f"{rule.monitor}, {times}"
    for number in rule.invariants:
        yield from _folded(f"client invariant {number}: {INVARIANT_TEXTS[number]}", width)
    yield from _folded(f"who: {rule.client}", width)
    yield from _folded(f"what: {rule.what}", width)
    yield from _folded(f"rule: {rule.rule}", width)
    start_us = min((frame.mono_us for frame in rule.frames), default=rule.mono_us)
    for frame in rule.frames:
        yield from _folded(_frame(frame, start_us), width)


def _frame(frame: SeenFrame, start_us: int) -> str:
    code = f" ({frame.code})" if frame.code else ""
    opaque = "" if frame.opaque is None else f" opaque {frame.opaque}"
    peer = f" from {frame.peer}" if frame.peer else ""
    fields = " ".join(f"{name}={value}" for name, value in frame.fields.items())
    then = f" → {frame.outcome}" if frame.outcome else ""
    at_s = (frame.mono_us - start_us) / 1_000_000
    return f"+{at_s:.3f} s {frame.server}: {frame.request}{code}{opaque}{peer} {fields}{then}"


def _missing(verdict: SdkVerdict, width: int) -> Iterator[str]:
    for text in verdict.incomplete:
        yield from _folded(f"not whole: {text}", width, "")
    if count := verdict.doubtful_count:
        text = f"{count} violation{'s' * (count > 1)} left out: missing facts may explain them"
        yield from _folded(text, width, "")


def _coverage(verdict: SdkVerdict, width: int) -> Iterator[str]:
    numbers = sorted(
        {number for name in verdict.judged for number in SDK_MONITORS[name].invariants}
    )
    if not numbers:
        yield "judged: no client invariant"
    else:
        plural = "s" * (len(numbers) != 1)
        yield f"judged: {len(numbers)} client invariant{plural} (rmqemu docs invariants)"
        for number in numbers:
            yield from _folded(f"{number}  {INVARIANT_TEXTS[number]}", width, "  ")
    if verdict.not_judged:
        yield from not_judged_lines(verdict.not_judged, width)


def not_judged_lines(not_judged: Mapping[str, str], width: int) -> list[str]:
    """The checkers that could not judge, with their reasons if there is room, in two lines."""
    lines_max = NOT_JUDGED_LINES_MAX
    each = ", ".join(f"{name} ({why})" for name, why in not_judged.items())
    lines = _folded(f"not judged: {each}", width, "")
    if len(lines) <= lines_max:
        return lines
    lines = _folded(f"not judged: {', '.join(not_judged)} (why: --json)", width, "")
    if len(lines) <= lines_max:
        return lines
    return [*lines[: lines_max - 1], f"{lines[lines_max - 1][: width - len(CUT)].rstrip()}{CUT}"]


def _folded(text: str, width: int, indent: str = INDENT) -> list[str]:
    more = indent + "  "
    return wrap(clean(text), width, initial_indent=indent, subsequent_indent=more)
