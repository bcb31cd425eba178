"""What follows from parts of a plan that could not be read, and is no problem of its own.

All problems of a scenario are shown at once.  So a plan is checked even if parts of it are
missing: a group whose ``members`` is misspelt has the default number, a load without a rate is
left out.  Then a step may name a member that the plan lacks only for that reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Self, TypeAlias

import msgspec

from rocketmq_emulator.scenarios.plan.plan import ConsumersPlan
from rocketmq_emulator.scenarios.plan.problems import Path


class UnreadPart(NamedTuple):
    """The path of a part of which values were refused; ``made`` without them, if it can be.

    ``fields`` are those that were refused or meant: the nearest to a name that is none.
    """

    path: Path
    made: msgspec.Struct | None
    fields: frozenset[str] = frozenset()

    def lacks(self, *fields: str) -> bool:
        """Was the whole part refused, or one of *fields*?"""
        return self.made is None or not self.fields.isdisjoint(fields)


class UnknownName(str):
    """The text of a problem: *name* is none of the names of this plan."""

    __slots__ = ("name", "what")
    name: str
    what: str

    def __new__(cls, text: str, what: str, name: str) -> Self:
        """*what* is the kind of thing that would have this name, as ``node or group``."""
        made = super().__new__(cls, text)
        made.what, made.name = what, name
        return made


EXPECTED = "group, topic or broker"  # what an expectation may be limited to
# Fields that a check compares with other fields of the same part.
RELATED = frozenset({"key_skew", "orderly", "seeks_ms", "settings", "settings_of"})


def without_consequences(
    found: Iterable[tuple[Path, str]], unread: Sequence[UnreadPart]
) -> list[tuple[Path, str]]:
    """The problems *found* that have another cause than the *unread* parts."""
    return [
        (path, text)
        for path, text in found
        if not any(_is_related(path, part) or _may_name(text, part) for part in unread)
    ]


def _is_related(path: Path, part: UnreadPart) -> bool:
    length = len(part.path)
    return path == part.path or (
        path[:length] == part.path and len(path) > length and path[length] in RELATED
    )


def _may_name(text: str, part: UnreadPart) -> bool:
    """Is *text* about a name that *part* would have given, if it had been read?"""
    if not isinstance(text, UnknownName) or not part.path:
        return False
    section = str(part.path[0])
    gives = GIVES.get(section)
    if gives is None or text.what not in NAMED_BY[section]:
        return False
    if text.what == "earlier step":
        return part.lacks("name")
    return gives(text.name, part)


# Names that come from a section of a plan, as problems call what has them.
NODES = frozenset({"node or group", "node", "client", "member", EXPECTED})
NAMED_BY: Mapping[str, frozenset[str]] = {
    "cluster": NODES | {"broker", "NameServer"},
    "topics": frozenset({"topic", EXPECTED}),
    "consumers": NODES | {"group"},
    "load": NODES,
    "programs": NODES,
    "timeline": NODES | {"earlier step"},
}


def _is_server(name: str, part: UnreadPart) -> bool:
    is_server = name.startswith(("broker", "namesrv", "controller"))
    return is_server and part.lacks("brokers", "slaves", "name_servers", "controllers")


def _is_topic(name: str, part: UnreadPart) -> bool:
    return len(part.path) < 2 or part.path[1] == name


def _is_member(name: str, part: UnreadPart) -> bool:
    if not isinstance(part.made, ConsumersPlan):
        return part.made is None and not name.startswith(("broker", "namesrv", "producer"))
    is_member = re.fullmatch(rf"{re.escape(part.made.group)}-\d+", name) is not None
    return is_member and part.lacks("members")


def _is_producer(name: str, part: UnreadPart) -> bool:
    return name.startswith("producer-") and part.lacks("producers")


def _is_program(_: str, part: UnreadPart) -> bool:
    return part.lacks("name")


def _joins(name: str, part: UnreadPart) -> bool:
    is_join = "join" in (*part.path[2:], *part.fields)
    return is_join and re.fullmatch(r".+-\d+", name) is not None


GivesName: TypeAlias = Callable[[str, UnreadPart], bool]
GIVES: Mapping[str, GivesName] = {
    "cluster": _is_server,
    "topics": _is_topic,
    "consumers": _is_member,
    "load": _is_producer,
    "programs": _is_program,
    "timeline": _joins,
}
assert GIVES.keys() == NAMED_BY.keys(), "each section that gives names says which"
