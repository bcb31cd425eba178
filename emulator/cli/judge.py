"""``judge``: clients in any language, held to RocketMQ's rules by what the servers see of them.

Beside a running ``up`` it follows its facts; or it reads journals.  Nothing is sent to the
clients, and they need not know.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated

import msgspec
import typer

from emulator.checks.reading import BadJournal, Skipped, as_far_as_read, entries_in
from emulator.checks.servers.verdict import SdkJudge, SdkVerdict, kinds_to_follow
from emulator.checks.violation import Violation
from emulator.cli.columns import clean
from emulator.cli.errors import FAILED, NOT_FOUND, BadUse, fail, hint, plain_errors, say
from emulator.cli.judge_screen import verdict_lines
from emulator.cli.nodes import ControlAt
from emulator.cli.shared import NAMESRV, AsJson, Namesrv, make_console, show_json
from emulator.cluster.control.caller import ControlCaller, find_control
from emulator.cluster.durations import milliseconds
from emulator.journal import Entry

LINES_MAX = 100_000  # that wait to be judged; whoever writes more waits
BATCH_S = 0.2  # so often new objections are shown
BATCH_LINES_MAX = 2_000
LATE_S = 0.6  # so long facts are waited for when the time is up, or after Ctrl-C

JudgedJournals = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[JOURNAL…]",
        help="Journals of servers, or folders of them (up --journal DIR); none: a running `up`.",
    ),
]
How = Annotated[
    str,
    typer.Option("--for", metavar="TIME", help='How long, as "60s"; else until Ctrl-C.'),
]


def judge(
    journals: JudgedJournals = None,
    how_long: How = "",
    control: ControlAt = "",
    namesrv: Namesrv = NAMESRV,
    as_json: AsJson = False,
) -> None:
    """Say which client rules an SDK breaks.

    It reads what servers note of consumers in any language.  Start it before the client.
    Exit code 0: none was broken, 1: some was, or the journals are not whole, 4: no client came.
    """
    with plain_errors():
        skipped = Skipped()
        sdk_judge = SdkJudge(skipped)
        if journals:
            if how_long:
                raise BadUse("--for is for a running cluster; journals are read to their end")
            try:
                sdk_judge.take(as_far_as_read(journals, skipped))
            except BadJournal as error:
                raise BadUse(str(error)) from None
        else:
            for_s = _seconds(how_long)
            _follow(sdk_judge, find_control(control, namesrv), for_s, quiet=as_json)
        verdict = sdk_judge.verdict()
        if as_json:
            show_json(verdict)
        else:
            _show(verdict)
    if not verdict.clients:
        text = "no consumer came: start the judge first, then the client"
        raise fail("the journals know no consumer" if journals else text, NOT_FOUND)
    if not verdict.is_good:
        raise typer.Exit(FAILED)


def _seconds(text: str) -> float | None:
    try:
        return milliseconds(text) / 1_000 if text else None
    except ValueError as error:
        raise BadUse(str(error)) from error


def _follow(
    sdk_judge: SdkJudge, caller: ControlCaller, for_s: float | None, *, quiet: bool
) -> None:
    """Until the time is up, Ctrl-C, or the end of the cluster."""
    feed = _Feed(caller)
    with suppress(KeyboardInterrupt):  # the verdict so far is what was asked for
        feed.start()
        until = f"for {for_s:g} s" if for_s else "until Ctrl-C"
        hint(f"judging the clients of the cluster at {caller.address} {until}")
        with _first_interrupt() as is_interrupted:
            _take(sdk_judge, feed, for_s, is_interrupted, quiet=quiet)
            # What servers noted just before is on its way.
            _take(sdk_judge, feed, LATE_S, threading.Event(), quiet=quiet)
    if feed.has_ended and not quiet:
        say("the cluster has ended")


def _take(
    sdk_judge: SdkJudge,
    feed: _Feed,
    for_s: float | None,
    is_interrupted: threading.Event,
    *,
    quiet: bool,
) -> None:
    """What comes in that time, or until Ctrl-C or the end of the cluster."""
    ends_s = None if for_s is None else time.monotonic() + for_s
    while not (feed.has_ended or is_interrupted.is_set()):
        if ends_s is not None and time.monotonic() >= ends_s:
            return
        for violation in sdk_judge.take(feed.entries(BATCH_S)):
            if not quiet:
                hint(_objection(violation))


@contextmanager
def _first_interrupt() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C, which leaves no fact half judged; the second one interrupts."""
    is_interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield is_interrupted  # Ctrl-C comes to the main thread alone
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
    """Reads lines in the background, numbered anew: only some kinds of facts come."""

    def __init__(self, caller: ControlCaller) -> None:
        super().__init__(daemon=True)
        self._caller = caller
        self._lines: queue.Queue[bytes | Exception | None] = queue.Queue(LINES_MAX)
        self._seqs: dict[str, int] = {}
        self.has_ended = False

    def start(self) -> None:
        """Done when every node is listened to.  Raises ``AdminError``."""
        super().start()
        first = self._lines.get()
        if isinstance(first, Exception):
            raise first

    def run(self) -> None:
        """In the thread."""
        try:
            for line in self._caller.facts(kinds_to_follow()):
                self._lines.put(line)
            self._lines.put(None)
        except Exception as error:  # noqa: BLE001  # raised where lines are taken
            self._lines.put(error)

    def entries(self, wait_s: float) -> Iterator[Entry]:
        """What has come, after *wait_s* at most."""
        wait = True
        for _ in range(BATCH_LINES_MAX):
            try:
                line = self._lines.get(wait, wait_s if wait else None)
            except queue.Empty:
                return
            wait = False
            if line is None or isinstance(line, Exception):
                self.has_ended = True
                return
            if line:
                yield from self._entry(line)

    def _entry(self, line: bytes) -> Iterator[Entry]:
        note = msgspec.json.decode(line, type=_FeedNote)
        if note.lost:  # a hole in the numbers: what is not known is not judged
            self._seqs[note.node] = self._seqs.get(note.node, 0) + note.lost
        elif not (note.followed_again or note.error):
            for entry in entries_in([line], "the feed of facts"):
                seq = self._seqs[entry.node] = self._seqs.get(entry.node, 0) + 1
                yield msgspec.structs.replace(entry, seq=seq)


class _FeedNote(msgspec.Struct):
    """What a line may be besides a fact."""

    node: str
    lost: int = 0
    followed_again: bool = False
    error: str = ""


def _objection(violation: Violation) -> str:
    at = time.strftime("%H:%M:%S")
    return clean(f"{at}  {violation.node} breaks {violation.checker}: {violation.what}")


def _show(verdict: SdkVerdict) -> None:
    console = make_console()
    for line in verdict_lines(verdict, console.width):
        console.print(line, markup=False, highlight=False)
