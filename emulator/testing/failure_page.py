"""The page of a failed test: the report of its journal, with its failure, history and messages.

Time zero is the begin of the test.  Of the checkers only those judge its journal that need no
settings of clients and measure no time: a test sets timers, advances time, and ends when it likes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rocketmq_emulator.checks.judging.completeness import Completeness
from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.judging.table import MEASURES
from rocketmq_emulator.checks.monitors.held_queues import OneListenerAQueue
from rocketmq_emulator.checks.monitors.passes import BroadcastersShareNothing, SharesAddUp
from rocketmq_emulator.checks.monitors.queue_transfers import ReleasesFollowPasses
from rocketmq_emulator.checks.monitors.sending import (
    AsyncRetriesStay,
    AttemptsAreBounded,
    SendsEnd,
    SendsFollowRoutes,
)
from rocketmq_emulator.checks.rules.commits import CommitsFollowDelivery
from rocketmq_emulator.checks.rules.delivery import NothingIsLost
from rocketmq_emulator.checks.rules.duplicates import DuplicatesAreExplained
from rocketmq_emulator.checks.rules.given_messages import (
    FiltersAreKept,
    OffsetsAreUnique,
    OrderIsKept,
)
from rocketmq_emulator.checks.rules.locks import LocksAreSafe
from rocketmq_emulator.checks.rules.ownership import OneOwner
from rocketmq_emulator.scenarios.report.page import FailureShown, write_page
from rocketmq_emulator.scenarios.report.report_data import (
    ReportData,
    read_and_judge,
    read_report_data,
)
from rocketmq_emulator.testing.failure_history import FATES, FailedTest, history_of
from rocketmq_emulator.testing.message_fates import MessageFates, PlacedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocketmq_emulator.checks.state.checker import Checker
    from rocketmq_emulator.facts.journal import Entry

JUDGED: tuple[type[Checker], ...] = (
    NothingIsLost,
    DuplicatesAreExplained,
    OffsetsAreUnique,
    FiltersAreKept,
    OrderIsKept,
    CommitsFollowDelivery,
    OneOwner,
    LocksAreSafe,
    SendsFollowRoutes,
    AttemptsAreBounded,
    AsyncRetriesStay,
    SendsEnd,
    SharesAddUp,
    BroadcastersShareNothing,
    ReleasesFollowPasses,
    OneListenerAQueue,
    *MEASURES.values(),
)
MESSAGES_MAX = 1_000  # listed on the page
GROUPS_MAX = 8  # columns of that list
COLUMNS = ("stored at", "topic", "queue", "offset")  # before those of tags and groups


class FailurePage(NamedTuple):
    """The page, and the lines of its history for a terminal."""

    html: str
    history: list[str]


def page_of(
    entries: Sequence[Entry],
    title: str,
    failed: FailedTest | None = None,
    queried: Mapping[str, tuple[str, ...]] | None = None,
) -> FailurePage:
    """The page of *entries*, of which there are some, and that of a run without *failed*.

    *queried* are the groups that the test named, with topics.
    """
    if failed is None:
        return FailurePage(write_page(read_and_judge(entries), title), [])
    judging = Judging(JUDGED, completeness=partial(Completeness, expects_clients=False))
    judging.take(entries)
    data = read_report_data(entries, judging.end)
    fates = MessageFates(entries, failed.failed_us, queried)
    lines = history_of(entries, failed, fates)
    columns = [*COLUMNS, *["tag"] * any(message.tags for message in fates.messages)]
    groups = sorted(fates.members)[:GROUPS_MAX]
    shown = FailureShown(
        failed_us=failed.failed_us,
        error=failed.error,
        history=lines,
        heads=[*columns, *groups],
        messages=[
            [*_places(message, failed.began_us)[: len(columns)], *_fates(message, groups, fates)]
            for message in fates.messages[:MESSAGES_MAX]
        ],
        message_count=len(fates.messages),
    )
    return FailurePage(write_page(_from(data, failed.began_us), title, shown), lines)


def _places(message: PlacedMessage, began_us: int) -> list[str]:
    """The cells of ``COLUMNS``, and its tag."""
    at_s = (message.at_us - began_us) / 1e6
    place = [message.queue.topic, message.place, str(message.offset)]
    return [f"{at_s:.3f} s", *place, message.tags]


def _fates(message: PlacedMessage, groups: list[str], fates: MessageFates) -> Iterator[str]:
    """A cell for each group."""
    reading = fates.groups_of(message.queue.topic)
    for group in groups:
        if group in reading:
            fate = fates.fate_of(message, group)
            yield f"{FATES[fate.state]}{': ' if fate.why else ''}{fate.why}"
        else:
            yield "does not read it"


def _from(data: ReportData, began_us: int) -> ReportData:
    """*data* with its zero at *began_us*."""
    shift_us = data.start_us - began_us
    at_us = list(data.facts.at_us)  # differences: the first is the time of the first fact
    at_us[0] += shift_us
    facts = msgspec.structs.replace(data.facts, at_us=at_us)
    start_ms = data.start_ms - shift_us // 1_000
    return msgspec.structs.replace(data, start_us=began_us, start_ms=start_ms, facts=facts)
