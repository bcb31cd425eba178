"""The clusters of one pytest run: one for each set of options, reset for each test that uses it.

Under pytest-xdist each worker is a process with its own clusters, on their own ports.
"""

from __future__ import annotations

import hashlib
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec
import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr  # no public name for these

from rocketmq_emulator.client.instance.process import LEFT_AT
from rocketmq_emulator.facts.journal import Entry, encode_entry
from rocketmq_emulator.protocol.error_families import (
    CannotDoHere,
    DamagedData,
    Misuse,
    NobodyAnswered,
    RefusedByServer,
)
from rocketmq_emulator.testing.rocketmq import RocketMQ
from rocketmq_emulator.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

OPTIONS = (  # of marker and factory: arguments of ``Cluster``
    "brokers",
    "slaves",
    "controllers",
    "acting_master",
    "name_servers",
    "release",
    "topics",
    "settings",
    "settings_of",
    "name_server_settings",
    "controller_settings",
    "with_links",
    "strict",
)
STRICT: Mapping[str, bool] = {
    **dict.fromkeys(("", "no", "false", "0"), False),
    **dict.fromkeys(("yes", "true", "1"), True),
}
VIRTUAL_TIME_OPTIONS = ("seed", "seeds", "virtual_s_max")
NAME_CHARS_MAX = 48  # so that the path of the page fits a line
JOURNAL = pytest.StashKey["FailureFacts"]()  # of a run in virtual time
SUMMARY = pytest.StashKey[str]()  # of a failure that is a text
BEGAN_US = pytest.StashKey[int]()  # monotonic time at which the test got its first cluster
HIDDEN_PACKAGES = ("rocketmq_emulator", "trio", "outcome")
NOT_OF_TESTS = (*HIDDEN_PACKAGES, "_pytest", "pluggy")
ERRORS_MAX = 100  # of one failure
FIXTURES = "rocketmq_emulator.testing.pytest_plugin"
FOR_USERS = (  # errors whose text says what to do
    pytest.UsageError,
    Misuse,
    RefusedByServer,
    NobodyAnswered,
    CannotDoHere,
    DamagedData,
    OSError,
)
OWN_FOLDER = "rocketmq"  # in the cache folder of pytest
RocketMQFactory: TypeAlias = Callable[..., RocketMQ]  # takes ``OPTIONS`` by name


class Clusters:
    """The clusters of one pytest run, by options; each starts when it is first used."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._open = ExitStack()
        self._shared: dict[bytes, RocketMQ] = {}
        self._of_item: dict[str, list[RocketMQ]] = {}

    def close(self) -> None:
        """Stop all clusters."""
        self._open.close()

    def shared(self, given: Mapping[str, Any]) -> RocketMQ:
        """The cluster with these options.  Raises ``UsageError`` for an unknown option."""
        fields = fields_of(given, option(self._config, "release"))
        fields.pop("strict", None)  # of a test, not of the cluster that tests share
        key = msgspec.json.encode(fields, order="sorted")
        if key not in self._shared:
            self._shared[key] = _opened(self._open, fields)
        return self._shared[key]

    @contextmanager
    def of_test(self, item: pytest.Item) -> Iterator[RocketMQ]:
        """The cluster that the marker of *item* describes, empty."""
        given = options_of(item)
        cluster = self.shared(given)
        cluster.reset()
        _begin(item)
        cluster.strict = bool(given.get("strict", is_strict(self._config)))
        self._of_item[item.nodeid] = [cluster]
        try:
            yield cluster
            if cluster.strict:
                cluster.check_misuses()
        finally:
            cluster.strict = False
        self._of_item.pop(item.nodeid, None)

    @contextmanager
    def factory_of_test(self, item: pytest.Item) -> Iterator[RocketMQFactory]:
        """A function that starts clusters, which end with the test of *item*."""
        _begin(item)
        with ExitStack() as closing:

            def make(**given: object) -> RocketMQ:
                fields = fields_of(given, option(self._config, "release"))
                fields.setdefault("strict", is_strict(self._config))
                cluster = _opened(closing, fields)
                self._of_item.setdefault(item.nodeid, []).append(cluster)
                return cluster

            yield make
        self._of_item.pop(item.nodeid, None)

    def of_item(self, item: pytest.Item) -> list[RocketMQ]:
        """The clusters that the test of *item* uses."""
        return self._of_item.get(item.nodeid, [])


class FailureFacts(msgspec.Struct):
    """The facts of one cluster during a test; times are those of its entries, in µs.

    *began_us* and *failed_us* are None for a run that is no test of its own: a scenario.
    """

    entries: list[Entry]
    began_us: int | None = None
    failed_us: int | None = None
    queried: dict[str, tuple[str, ...]] = {}  # groups that the test named, with topics


def attach(
    item: pytest.Item,
    report: pytest.TestReport,
    call: pytest.CallInfo[Any],
    clusters: Clusters | None,
) -> None:
    """Write the journals and pages of a failed test, and add its history to *report*."""
    if SUMMARY in item.stash:
        path, line, _ = item.location
        crash = ReprFileLocation(path, (line or 0) + 1, item.stash[SUMMARY])
        report.longrepr = TextWithSummary(str(report.longrepr), crash)
    journals = [item.stash[JOURNAL]] if JOURNAL in item.stash else []
    began_us = item.stash.get(BEGAN_US, 0)
    failed_us = failed_at_us(call)
    journals += [
        FailureFacts(cluster.journal(), began_us, failed_us, cluster.queried_groups)
        for cluster in ([] if clusters is None else clusters.of_item(item))
    ]
    for number, journal in enumerate(journals, 1):
        leave_journal(item, report, journal, "" if number == 1 else f"-{number}")


def error_of(call: pytest.CallInfo[Any]) -> BaseException | None:
    """The error that ended *call*."""
    return None if call.excinfo is None else call.excinfo.value


def failed_at_us(call: pytest.CallInfo[Any]) -> int:
    """The monotonic time in µs at which the error was raised that ended the test.

    A client's block that the error ended was closed later; the block has noted the time.
    """
    found = [getattr(error, LEFT_AT, 0) for error in errors_of(error_of(call))]
    since_us = int((time.time() - call.stop) * 1e6)
    return min(filter(None, found), default=time.monotonic_ns() // 1_000 - since_us)


def fail_with(item: pytest.Item, text: str, summary: str) -> NoReturn:
    """Fail the test of *item* with *text* instead of a traceback; *summary* is its short form."""
    item.stash[SUMMARY] = summary
    pytest.fail(text, pytrace=False)


class TextWithSummary(TerminalRepr):
    """A failure that is shown as its text; pytest's short summary shows ``reprcrash``."""

    def __init__(self, text: str, crash: ReprFileLocation) -> None:
        self.text = text
        self.reprcrash = crash

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write the text."""
        for line in self.text.splitlines():
            tw.line(line)


def hide_frames(found: BaseException | None) -> None:
    """Hide the emulator's frames in tracebacks; ``--full-trace`` shows them.

    They are hidden by module: an error of a client passes through a dozen functions.
    """
    for error in errors_of(found):
        names_of = [frame.f_globals for frame, _ in traceback.walk_tb(error.__traceback__)]
        if all(_package_of(names) in NOT_OF_TESTS for names in names_of):
            continue  # an error of ours: then pytest would show nothing
        for names in names_of:
            if _package_of(names) in HIDDEN_PACKAGES:
                names.setdefault("__tracebackhide__", True)


def shorten(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[Any]) -> None:
    """Show an error that a fixture of ours raised itself by its text: all its frames are ours.

    An error that no caller can cause keeps its traceback, as all do with ``--full-trace``.
    """
    info = call.excinfo
    if info is None or not isinstance(info.value, FOR_USERS) or item.config.option.fulltrace:
        return
    names = [str(f.f_globals.get("__name__")) for f, _ in traceback.walk_tb(info.tb)]
    if FIXTURES not in names:
        return
    after = names[len(names) - names[::-1].index(FIXTURES) :]
    if all(name.partition(".")[0] in (*HIDDEN_PACKAGES, "contextlib") for name in after):
        path, line, _ = item.location
        is_usage = isinstance(info.value, pytest.UsageError)
        text = str(info.value) if is_usage else info.exconly()
        report.longrepr = TextWithSummary(text, ReprFileLocation(path, (line or 0) + 1, text))


def _package_of(names: Mapping[str, Any]) -> str:
    return str(names.get("__name__")).partition(".")[0]


def errors_of(first: BaseException | None) -> list[BaseException]:
    """The error *first*, its causes, and the errors in groups."""
    waiting = [first]
    found: list[BaseException] = []
    while waiting and len(found) < ERRORS_MAX:
        error = waiting.pop()
        if error is None or any(error is known for known in found):
            continue
        found.append(error)
        waiting += [error.__cause__, error.__context__]
        waiting += error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return found


def fields_of(given: Mapping[str, Any], release: str) -> dict[str, Any]:
    """The fields of a cluster with these options.  Raises ``UsageError`` for an unknown option."""
    for name in given:
        if name not in OPTIONS and name not in VIRTUAL_TIME_OPTIONS:
            known = (*OPTIONS, *VIRTUAL_TIME_OPTIONS)
            hint = did_you_mean(name, known)
            raise pytest.UsageError(f"a cluster has no option {name!r}: {hint}")
    fields = {name: value for name, value in given.items() if name in OPTIONS}
    if release:
        fields.setdefault("release", release)
    return fields


def options_of(item: pytest.Item) -> dict[str, Any]:
    """The options of all markers of *item*; the closest marker overrides the others."""
    found: dict[str, Any] = {}
    for marker in item.iter_markers("rocketmq"):
        if marker.args:
            raise pytest.UsageError(f"options of a cluster are given by name: {marker.args[0]!r}")
        found = {**marker.kwargs, **found}
    return found


def option(config: pytest.Config, name: str) -> str:
    """The value from the command line, else from the ini file, else empty."""
    given = config.getoption(f"--rocketmq-{name}")
    return str(config.getini(f"rocketmq_{name}") if given is None else given)


def is_strict(config: pytest.Config) -> bool:
    """Whether likely mistakes of clients are errors, by ``rocketmq_strict``."""
    text = option(config, "strict").lower()
    if text not in STRICT:
        raise pytest.UsageError(f"rocketmq_strict is yes or no, not {text!r}")
    return STRICT[text]


def leave_journal(
    item: pytest.Item, report: pytest.TestReport, journal: FailureFacts, suffix: str = ""
) -> None:
    """Write journal and page to the test's folder, and name them in the report."""
    from rocketmq_emulator.testing.failure_history import FailedTest  # noqa: PLC0415  # a failed test only
    from rocketmq_emulator.testing.failure_page import page_of  # noqa: PLC0415  # the same

    folder = folder_of(item)
    folder.mkdir(parents=True, exist_ok=True)
    found = {"journal": folder / f"journal{suffix}.jsonl"}
    found["journal"].write_bytes(b"".join(map(encode_entry, journal.entries)))
    lines = []
    if journal.entries:
        found["report"] = folder / f"report{suffix}.html"
        failed = None
        if journal.began_us is not None and journal.failed_us is not None:
            failed = FailedTest(journal.began_us, journal.failed_us, _error_line(report))
        page = page_of(journal.entries, item.nodeid, failed, journal.queried)
        lines = page.history
        found["report"].write_text(page.html, encoding="utf-8")
        lines.append(f"page: {_shown_path(found['report'], item.config)}")
    report.sections.append((f"RocketMQ{suffix}, seconds since the test began", "\n".join(lines)))
    item.user_properties += [(f"rocketmq_{name}{suffix}", str(it)) for name, it in found.items()]


def _error_line(report: pytest.TestReport) -> str:
    """The first line of the error, as pytest's short summary shows it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return next(iter(text.strip().splitlines()), "").removeprefix("rocketmq_emulator.")


def _shown_path(path: Path, config: pytest.Config) -> str:
    """*path* as one can open it from the folder in which pytest was started."""
    start = config.invocation_params.dir
    return str(path.relative_to(start) if path.is_relative_to(start) else path)


def folder_of(item: pytest.Item) -> Path:
    """The folder for files of this test."""
    name = re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-")
    if len(name) > NAME_CHARS_MAX:
        digest = hashlib.sha256(item.nodeid.encode()).hexdigest()[:6]
        name = f"{name[-NAME_CHARS_MAX + 7 :].lstrip('-')}-{digest}"
    if given := option(item.config, "journals"):
        return item.config.rootpath / given / name
    cache: pytest.Cache | None = getattr(item.config, "cache", None)  # it can be switched off
    if cache is None:
        return item.config.rootpath / ".pytest_cache" / OWN_FOLDER / name
    return cache.mkdir(OWN_FOLDER) / name


def _begin(item: pytest.Item) -> None:
    item.stash.setdefault(BEGAN_US, time.monotonic_ns() // 1_000)


def _opened(closing: ExitStack, fields: dict[str, Any]) -> RocketMQ:
    """A cluster that runs until *closing* is closed."""
    try:
        cluster = RocketMQ(**fields)
    except ValueError as error:
        raise pytest.UsageError(f"wrong options of a cluster: {error}") from None
    cluster.start()
    closing.push(cluster)
    return cluster
