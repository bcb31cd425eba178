"""What the settings of a config struct may be, as one table for each struct.

A number has a range, a text a check, and settings that depend on each other have relations.
The struct checks itself when it is made.  So whoever gives a setting, in a file or in
Python, is refused with the same sentence; only a command line adds where it came from.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from types import UnionType
from typing import Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from emulator.fitting import BadField

INT_MAX = 2**31 - 1  # what upstream's ints hold
LONG_MAX = 2**63 - 1
VALUES_OF_TYPE: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    str: "a text",
    tuple[str, ...]: "a list of texts",
}


class SettingRefused(BadField):
    """A setting that cannot be.  ``settings`` are the names that the sentence is about."""

    def __init__(self, sentence: str, settings: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.settings = settings


class Range(NamedTuple):
    """From ``least`` to ``most``, both included; ``meaning`` is for people."""

    least: int
    most: int = INT_MAX
    meaning: str = ""

    def refusal(self, value: object) -> str:
        """Why *value* is none, as the end of a sentence; empty if it is one."""
        if not isinstance(value, int) or isinstance(value, bool):
            return f"is a whole number, not {value!r}"
        if self.least <= value <= self.most:
            return ""
        if self.most in (INT_MAX, LONG_MAX):
            bound = f"at least {self.least}" if value < self.least else f"at most {self.most}"
            return f"is {bound}, not {value}"
        meaning = f" ({self.meaning})" if self.meaning else ""
        return f"is between {self.least} and {self.most}{meaning}, not {value}"


class Relation(NamedTuple):
    """What must hold between settings; ``sentence`` has ``{their names}`` in braces."""

    settings: tuple[str, ...]
    holds: Callable[[Any], bool]
    sentence: str


class SettingRules(NamedTuple):
    """The rules of one struct.  ``properties`` are upstream's names by ours, for messages."""

    ranges: Mapping[str, Range]
    texts: Mapping[str, Callable[[Any], object]] = {}  # each raises ``ValueError``
    relations: tuple[Relation, ...] = ()
    properties: Mapping[str, str] = {}
    prefix: str = ""

    def check(self, config: msgspec.Struct) -> None:
        """Raises ``SettingRefused``, for the first rule that *config* breaks."""
        for name, range_ in self.ranges.items():
            value = getattr(config, name)
            if value is not None and (why := range_.refusal(value)):
                raise SettingRefused(f"{self.shown(name)} {why}", (self.prefix + name,))
        for name, check in self.texts.items():
            try:
                check(getattr(config, name))
            except ValueError as error:
                why = f"{self.shown(name)}: {error}"
                raise SettingRefused(why, (self.prefix + name,)) from None
        for names, holds, sentence in self.relations:
            if not holds(config):
                shown = {name: f"{self.shown(name)} = {getattr(config, name)}" for name in names}
                full = tuple(self.prefix + name for name in names)
                raise SettingRefused(sentence.format_map(shown), full)

    def shown(self, name: str) -> str:
        """A setting's name for people, with upstream's in parentheses."""
        property_ = self.properties.get(self.prefix + name, "")
        return f"{self.prefix}{name} ({property_})" if property_ else self.prefix + name


class Checked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A config struct whose ``setting_rules``, and those of its bases, hold once it is made."""

    setting_rules: ClassVar[SettingRules] = SettingRules({})

    def __post_init__(self) -> None:
        for kind in reversed(type(self).__mro__):
            if (rules := kind.__dict__.get("setting_rules")) is not None:
                rules.check(self)


def ranges(*groups: tuple[Range, str]) -> dict[str, Range]:
    """A range for each name in the words of a text; no name twice."""
    pairs = [(name, range_) for range_, names in groups for name in names.split()]
    found = dict(pairs)
    assert len(found) == len(pairs), "a setting has one range"
    return found


# Values from outside ------------------------------------------------------------------------


def refusal_of(error: Exception) -> SettingRefused:
    """The refusal that *error* is, or was raised from; or one with its text."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SettingRefused):
            return cause
        cause = cause.__cause__
    return SettingRefused(str(error), ())


def unknown_setting(name: str, known: Collection[str]) -> str:
    """The sentence about a name that is no setting, with the nearest one that is."""
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"; did you mean {near[0]}?" if near else ""
    return f"there is no setting {name!r} here{advice}"


def wrong_type(kind: Any, value: object) -> str:
    """Why *value* is none of the type *kind*, as the end of a sentence."""
    return f"is {_values_of(kind)}, not {value!r}"


def _values_of(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_values_of(part) for part in get_args(kind) if part is not type(None))
    return VALUES_OF_TYPE.get(kind, "a table of settings")
