"""Settings by name made into a config struct that checks itself.

msgspec converts them.  If it refuses, the error names the first field that is wrong:

    Producer has no setting 'sync_retry': did you mean sync_retries?
    send_timeout_ms is an int, not str '3s'

The allowed values of a struct's settings are one table: a number has a range, a text a check, and
settings that depend on each other have relations.  The struct checks itself when it is made.  So
a wrong setting, in a file or in Python, is refused with the same sentence; only the command
line adds its source.
"""

from __future__ import annotations

import threading
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from types import UnionType
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.protocol.messages.validation import type_error_text
from rocketmq_emulator.text.suggestions import did_you_mean, nearest

# Fields by name -----------------------------------------------------------------------


S = TypeVar("S", bound=msgspec.Struct)

# The first conversion to a struct reads its annotations, and msgspec 0.22 crashes the process when
# a second thread converts to it meanwhile; several threads may make their first clients at once.
_one_at_a_time = threading.RLock()


class BadField(Misuse, msgspec.ValidationError, ValueError):
    """A field that is unknown, missing, or of a wrong type or value; the text names it."""


def convert_fields(
    kind: type[S],
    given: Mapping[str, object],
    owner: str,
    aliases: Mapping[str, str] | None = None,
) -> S:
    """A *kind* with the fields *given*; errors name it *owner*.

    *aliases* are other names that users may try, with ours.  Raises ``BadField``.
    """
    try:
        with _one_at_a_time:
            return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        for name, value in given.items():
            if name not in fields:
                meant = _suggestion(name, fields, aliases or {})
                raise BadField(f"{owner} has no setting {name!r}{meant}") from None
            _check_type(name, fields[name].type, value)
        for name, field in fields.items():
            if field.required and name not in given:
                raise BadField(f"{owner} needs a {name}: {owner}({name}=…)") from None
        raise _cause(error) from None


def _cause(error: BaseException) -> BadField:
    """The error of the struct itself, without the path that msgspec adds."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BadField):
            return cause
        cause = cause.__cause__
    return BadField(str(error))


def _check_type(name: str, wanted: object, value: object) -> None:
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        if isinstance(value, Mapping):  # the error names one of its fields
            if (cause := _cause(error)).__class__ is not BadField:
                raise cause from None
            raise BadField(f"{name}: {error}") from None
        raise BadField(type_error_text(name, _described(wanted), value)) from None


def _described(wanted: object) -> str:
    parts = typing.get_args(wanted)
    if typing.get_origin(wanted) is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if isinstance(wanted, types.UnionType):
        return " or ".join(_described(part) for part in parts)
    if wanted is type(None):
        return "None"
    kind = typing.get_origin(wanted) or wanted
    name: str = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _suggestion(name: str, fields: Iterable[str], aliases: Mapping[str, str]) -> str:
    plain = {_plain(theirs): ours for theirs, ours in aliases.items() if ours in fields}
    plain |= {_plain(ours): ours for ours in fields}
    near = nearest(_plain(name), plain)
    return f": did you mean {plain[near]}?" if near else ""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


# Ranges, checks and relations ---------------------------------------------------------


INT_MAX = 2**31 - 1  # of Java's int
LONG_MAX = 2**63 - 1
VALUES_OF_TYPE: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    str: "a text",
    tuple[str, ...]: "a list of texts",
}


class SettingRefused(BadField):
    """A setting has a value that is not allowed; ``settings`` are the names in the sentence."""

    def __init__(self, sentence: str, settings: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.settings = settings


class Range(NamedTuple):
    """From ``least`` to ``most``, both included; ``meaning`` explains it in errors."""

    least: int
    most: int = INT_MAX
    meaning: str = ""

    def refusal(self, value: object) -> str:
        """Why *value* is not in the range, as the end of a sentence; empty if it is."""
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
    """A condition on several settings; its ``sentence`` has ``{their names}`` in braces."""

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


class CheckedConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A config struct that checks its ``setting_rules``, and those of its bases, when made."""

    setting_rules: ClassVar[SettingRules] = SettingRules({})

    def __post_init__(self) -> None:
        for kind in reversed(type(self).__mro__):
            if (rules := kind.__dict__.get("setting_rules")) is not None:
                rules.check(self)


def ranges(*groups: tuple[Range, str]) -> dict[str, Range]:
    """The range of each name; a group is a range and names separated by blanks."""
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
    """The error about a *name* that is no setting, with the nearest setting."""
    advice = did_you_mean(name, known, before="; ", otherwise="")
    return f"there is no setting {name!r} here{advice}"


def wrong_type(kind: object, value: object) -> str:
    """Why *value* does not have the type *kind*, as the end of a sentence."""
    return f"is {_values_of(kind)}, not {value!r}"


def _values_of(kind: object) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_values_of(part) for part in get_args(kind) if part is not type(None))
    return VALUES_OF_TYPE.get(kind, "a table of settings")
