"""The clusters of one pytest run: one for each set of options, reset for each test that uses it.

Under pytest-xdist each worker is a process with its own clusters, on their own ports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pytest

from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.testing.rocketmq import RocketMQ
from rocketmq_emulator.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from rocketmq_emulator.facts.journal import Entry

OPTIONS = (  # of marker and factory: arguments of ``Cluster``
    "brokers",
    "name_servers",
    "release",
    "topics",
    "settings",
    "settings_of",
    "name_server_settings",
    "with_links",
)
VIRTUAL_TIME_OPTIONS = ("seed", "seeds", "virtual_s_max")
LINES_SHOWN = 30
HIDDEN_FACTS = ("ConnectionOpened", "ConnectionClosed", "PullHeld", "PullAnswered")
NAME_CHARS_MAX = 120
JOURNAL_LINES = pytest.StashKey[list[bytes]]()  # the journal of a run in virtual time
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
        key = msgspec.json.encode(fields, order="sorted")
        if key not in self._shared:
            self._shared[key] = self._open.enter_context(_cluster(fields))
        return self._shared[key]

    @contextmanager
    def of_test(self, item: pytest.Item) -> Iterator[RocketMQ]:
        """The cluster that the marker of *item* describes, empty."""
        cluster = self.shared(options_of(item))
        cluster.reset()
        self._of_item[item.nodeid] = [cluster]
        yield cluster
        self._of_item.pop(item.nodeid, None)

    @contextmanager
    def factory_of_test(self, item: pytest.Item) -> Iterator[RocketMQFactory]:
        """A function that starts clusters, which end with the test of *item*."""
        with ExitStack() as closing:

            def make(**given: object) -> RocketMQ:
                fields = fields_of(given, option(self._config, "release"))
                cluster = closing.enter_context(_cluster(fields))
                self._of_item.setdefault(item.nodeid, []).append(cluster)
                return cluster

            yield make
        self._of_item.pop(item.nodeid, None)

    def of_item(self, item: pytest.Item) -> list[RocketMQ]:
        """The clusters that the test of *item* uses."""
        return self._of_item.get(item.nodeid, [])


def attach(item: pytest.Item, report: pytest.TestReport, clusters: Clusters | None) -> None:
    """Write the journals of a failed test, and name the files in *report*."""
    journals = [item.stash[JOURNAL_LINES]] if JOURNAL_LINES in item.stash else []
    if clusters is not None:
        journals += [cluster.journal_lines() for cluster in clusters.of_item(item)]
    for number, lines in enumerate(journals, 1):
        leave_journal(item, report, lines, "" if number == 1 else f"-{number}")


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


def leave_journal(
    item: pytest.Item,
    report: pytest.TestReport,
    lines: list[bytes],
    suffix: str = "",
) -> None:
    """Write journal and report page to the test's folder, and name them in the report."""
    folder = folder_of(item)
    folder.mkdir(parents=True, exist_ok=True)
    journal, page = folder / f"journal{suffix}.jsonl", folder / f"report{suffix}.html"
    journal.write_bytes(b"".join(lines))
    found = {"journal": str(journal)}
    entries = list(read_journals([journal]))
    if entries:
        from rocketmq_emulator.scenarios.report.page import write_page  # noqa: PLC0415  # a failed test only
        from rocketmq_emulator.scenarios.report.report_data import read_report_data  # noqa: PLC0415  # the same

        page.write_text(write_page(read_report_data(entries), item.nodeid), encoding="utf-8")
        found["report"] = str(page)
    shown_entries = [entry for entry in entries if type(entry.fact).__name__ not in HIDDEN_FACTS]
    shown = [line_of(entry) for entry in shown_entries[-LINES_SHOWN:]]
    if len(entries) > len(shown):
        shown.insert(0, f"the last {len(shown)} of {len(entries)} facts, without connections")
    shown += [f"{name}: {value}" for name, value in found.items()]
    report.sections.append(("RocketMQ: facts of the cluster", "\n".join(shown)))
    item.user_properties += [(f"rocketmq_{name}{suffix}", value) for name, value in found.items()]


def line_of(entry: Entry) -> str:
    """A fact as one line: seconds, node, fact."""
    seconds = entry.mono_us / 1_000_000
    return f"{seconds:12.3f}  {entry.node:<12} {entry.fact}"


def folder_of(item: pytest.Item) -> Path:
    """The folder for files of this test."""
    name = re.sub(r"[^\w.-]+", "-", item.nodeid)[-NAME_CHARS_MAX:].strip("-")
    if given := option(item.config, "journals"):
        return item.config.rootpath / given / name
    cache: pytest.Cache | None = getattr(item.config, "cache", None)  # it can be switched off
    if cache is None:
        return item.config.rootpath / ".pytest_cache" / OWN_FOLDER / name
    return cache.mkdir(OWN_FOLDER) / name


def _cluster(fields: dict[str, Any]) -> RocketMQ:
    try:
        return RocketMQ(**fields)
    except ValueError as error:
        raise pytest.UsageError(f"wrong options of a cluster: {error}") from error
