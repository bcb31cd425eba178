"""Logs for people: a listener of a journal that renders facts as lines of text.

Logs are made from facts, never facts from logs, and no code parses a log.  structlog renders
the lines.  It is imported with the first line: it costs 50 ms and 6 MB, which a node without
log lines saves.

Clients inside an application write to the standard library's logger ``rocketmq_emulator``
instead, and the application decides which lines are shown.  There is no NullHandler: if logging
is not configured, Python shows warnings and errors on standard error, as users expect.
"""

from __future__ import annotations

import enum
import functools
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec

from rocketmq_emulator.facts import Fact, Queue, Severity, all_facts
from rocketmq_emulator.facts.journal import Entry, Journal, without_surrogates

Render = Callable[[Entry], str]

LOGGER = "rocketmq_emulator"
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
NODE_WIDTH, KIND_WIDTH = 10, 23  # columns: "name-srv-1", "DelayedMessageDropped"


class LogFormat(enum.StrEnum):
    """Text for people, or one JSON object a line for programs that collect logs."""

    CONSOLE = "console"
    JSON = "json"


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which of a node's facts are shown on standard error, and in which format."""

    least: Severity = "warning"
    format: LogFormat = LogFormat.CONSOLE
    colours: bool = False  # in the console format


WARNINGS = LogSettings()  # the default of every node


class LogLines:
    """Renders entries and calls *write* with each, newline included; one may have many lines."""

    def __init__(self, write: Callable[[str], object], settings: LogSettings) -> None:
        self._write = write
        self._settings = settings
        self._render: Render | None = None

    def show(self, entry: Entry) -> None:
        """Write *entry* in the format of the settings; as plain text if that fails."""
        try:
            if self._render is None:
                self._render = _renderer(self._settings)
            line = self._render(entry)
        # Too many open files to import structlog; or a time that datetime cannot hold.
        except (ImportError, OSError, OverflowError, ValueError):
            line = f"[{entry.fact.severity}] {text_of(entry)}"
        self._write(line + "\n")


def log_to(journal: Journal, write: Callable[[str], object], settings: LogSettings) -> None:
    """From now on *write* gets the facts of *journal* from severity ``settings.least`` on."""
    journal.listen(LogLines(write, settings).show, kinds_from(settings.least))


def log_to_application(journal: Journal) -> None:
    """From now on the application's logger gets the facts of *journal*, with their severity.

    The logger's level at this moment decides which kinds it gets.
    """
    logger = logging.getLogger(LOGGER)
    kinds = _kinds_of_level(logger.getEffectiveLevel())
    journal.listen(lambda entry: logger.log(_level(type(entry.fact)), "%s", text_of(entry)), kinds)


@functools.cache
def kinds_from(least: Severity) -> frozenset[type[Fact]]:
    """The kinds of facts from severity *least* on, without those on demand."""
    wanted = SEVERITIES[SEVERITIES.index(least) :]
    return frozenset(k for k in all_facts() if k.severity in wanted and not k.on_demand)


@functools.cache
def _kinds_of_level(level: int) -> frozenset[type[Fact]]:
    return frozenset(kind for kind in kinds_from("debug") if _level(kind) >= level)


def text_of(entry: Entry) -> str:
    """One line without time and severity; a traceback follows on lines of its own."""
    shown, traceback = _split(entry.fact)
    fields = entry.fact.sentence() or " ".join(
        f"{name}={_quoted(text)}" for name, text in _plain(shown).items()
    )
    line = f"{entry.node} {type(entry.fact).__name__} {fields}".rstrip()
    return f"{line}\n{traceback}".rstrip() if traceback else line


def _renderer(settings: LogSettings) -> Render:
    import structlog  # noqa: PLC0415  # loaded with the first line: see above

    if settings.format is LogFormat.JSON:
        render = structlog.processors.JSONRenderer(serializer=_json)
        return lambda entry: str(render(None, "", _record(entry)))
    console = structlog.dev.ConsoleRenderer(
        colors=settings.colours,
        sort_keys=False,
        exception_formatter=structlog.dev.plain_traceback,
    )
    return lambda entry: str(console(None, "", _line(entry)))


def _record(entry: Entry) -> dict[str, Any]:
    """The JSON format: every field, by name."""
    at = datetime.fromtimestamp(entry.at_ms / 1000, UTC)
    shown, traceback = _split(entry.fact)
    record: dict[str, Any] = {
        "timestamp": at.isoformat(timespec="milliseconds"),
        "level": entry.fact.severity,
        "node": entry.node,
        "event": type(entry.fact).__name__,
        **shown,
        **({"message": sentence} if (sentence := entry.fact.sentence()) else {}),
    }
    return {**record, "exception": traceback} if traceback else record


def _line(entry: Entry) -> dict[str, Any]:
    """The console format: local time, and the sentence or the fields, a queue as one word."""
    at = datetime.fromtimestamp(entry.at_ms / 1000, UTC).astimezone()
    shown, traceback = _split(entry.fact)
    event = f"{entry.node:<{NODE_WIDTH}} {type(entry.fact).__name__:<{KIND_WIDTH}}"
    sentence = entry.fact.sentence()
    line: dict[str, Any] = {
        "timestamp": f"{at:%H:%M:%S}.{entry.at_ms % 1000:03}",
        "level": entry.fact.severity,
        "event": f"{event} {sentence}" if sentence else event,
        **({} if sentence else _plain(shown)),
    }
    return {**line, "exception": traceback.rstrip()} if traceback else line


def _split(fact: Fact) -> tuple[dict[str, Any], str]:
    """A fact's fields, with its advice; and its traceback."""
    shown = {name: getattr(fact, name) for name in fact.__struct_fields__}
    traceback = shown.pop("traceback", "")
    return ({**shown, "advice": fact.advice} if fact.advice else shown), traceback


def _plain(shown: Mapping[str, object]) -> dict[str, str]:
    return {name: _word(value) for name, value in shown.items()}


def _word(value: object) -> str:
    if isinstance(value, Queue):
        return f"{value.topic}/{value.broker}/{value.queue_id}"
    if isinstance(value, tuple):
        return f"[{', '.join(_word(item) for item in value)}]"
    return str(value)


def _quoted(text: str) -> str:
    return repr(text) if not text or " " in text else text


def _json(record: dict[str, Any], **_: object) -> str:
    return msgspec.json.encode(without_surrogates(msgspec.to_builtins(record))).decode()


def _level(kind: type[Fact]) -> int:
    return int(getattr(logging, kind.severity.upper()))
