"""Converts values of a file to the structs of a plan, and collects a problem for each bad value.

The types of the fields decide: units (``quantities``), a struct given by its first field alone,
one name instead of a list, request codes by name.  A value that came from a parameter is converted
to the type of its field.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, Union

import msgspec

from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.scenarios.files.quantities import Unit, parse, spelling
from rocketmq_emulator.scenarios.plan.plan import first_field
from rocketmq_emulator.scenarios.plan.problems import Path, Problem
from rocketmq_emulator.scenarios.plan.unread import UnreadPart
from rocketmq_emulator.text.suggestions import nearest_names, suggestion

S = TypeVar("S", bound=msgspec.Struct)


def _codes(names: type) -> Mapping[str, int]:
    return {name: code for name, code in vars(names).items() if name.isupper()}


NUMBERS: Mapping[tuple[type, str], Mapping[str, int]] = {
    (ReplyRule, "code"): _codes(RequestCode),
    (ReplyRule, "error_code"): _codes(ResponseCode),
}
TYPES: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


StructReader: TypeAlias = "Callable[[StructConverter, object, Path], msgspec.Struct]"


class CannotConvert(Misuse):
    """A value cannot be converted; its problem has been collected."""


@functools.cache
def types_of(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """The types of the fields of *kind*, by name."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


@functools.cache
def names_of(kind: type[msgspec.Struct]) -> Mapping[str, tuple[str, Unit | None]]:
    """The names that a file may use for fields, each with its field and the unit it requires.

    A field ``for_ms`` has the name ``for_ms``, and ``for``, whose value must have a unit.
    """
    names: dict[str, tuple[str, Unit | None]] = {}
    for field in types_of(kind):
        plain, unit = spelling(field)
        if unit is not None and plain != field:
            names[plain] = field, unit
    return names | {field: (field, None) for field in types_of(kind)}


class StructConverter:
    """Converts the values of one file to structs; ``problems`` are those found so far.

    A struct with a bad value is made without it, if that is possible, so that the rest is checked,
    too: ``unread`` has such structs.  An item of a list that cannot be made is left out;
    ``moved`` has the path in the file of each item after it.

    *of_parameters* are the paths whose values came from a parameter.  *shapes* are the readers of
    structs that a file writes in another form than their fields.
    """

    def __init__(
        self,
        of_parameters: Collection[Path] = (),
        shapes: Mapping[
            type, Callable[[StructConverter, object, Path], msgspec.Struct]
        ] = MappingProxyType({}),
    ) -> None:
        self.problems: list[Problem] = []
        self.unread: list[UnreadPart] = []
        self._refused: dict[Path, set[str]] = {}  # the fields of a struct whose values are bad
        self.moved: dict[Path, Path] = {}
        self._of_parameters = of_parameters
        self._shapes = shapes

    def refuse(self, path: Path, text: str) -> CannotConvert:
        """Collect a problem; the caller raises the returned error, or continues."""
        self.problems.append(Problem(path, text))
        return CannotConvert(text)

    def struct(self, kind: type[S], value: object, path: Path) -> S:
        """A *kind* from a table, or from its first field's value; by its reader if it has one.

        Raises ``CannotConvert``.
        """
        if isinstance(value, kind):
            return value  # from Python: it was checked when it was made
        if (shape := self._shapes.get(kind)) is not None:
            return typing.cast("S", shape(self, value, path))
        return self.made(kind, *self.fields(kind, value, path), path)

    def fields(
        self,
        kind: type[msgspec.Struct],
        value: object,
        path: Path,
        own_words: Collection[str] = (),
    ) -> tuple[dict[str, Any], bool]:
        """The fields of *kind* in *value*, and whether all of them were converted.

        *own_words* are keys that the caller reads; they are skipped here.
        """
        is_table = isinstance(value, Mapping)
        parts = typing.cast("Mapping[str, object]", value) if is_table else {}
        if not is_table:
            parts = {first_field(kind, value): value}
        given: dict[str, Any] = {}
        is_good = True
        for name, part in parts.items():
            if name in own_words:
                continue
            place = (*path, name) if is_table else path
            try:
                field, fit = self._field(kind, name, part, place, own_words)
            except CannotConvert:
                is_good = False
                known = [*types_of(kind), *own_words]
                meant = names_of(kind).get(name, (name, None))[0]
                self._refused.setdefault(path, set()).update(nearest_names(meant, known, 1))
                continue
            if field in given:
                is_good = False
                self.refuse(place, f"{field} is given twice")
            given[field] = fit
        return given, is_good

    def made(self, kind: type[S], given: dict[str, Any], is_good: bool, path: Path) -> S:
        """A *kind* of the converted values *given*.  Raises ``CannotConvert``."""
        fields = frozenset(self._refused.get(path, ()))
        try:
            made = self._made(kind, given, is_good, path)
        except CannotConvert:
            self.unread.append(UnreadPart(path, None, fields))
            raise
        if not is_good:
            self.unread.append(UnreadPart(path, made, fields))
        return made

    def _made(self, kind: type[S], given: dict[str, Any], is_good: bool, path: Path) -> S:
        missing = [
            field.name
            for field in msgspec.structs.fields(kind)
            if field.required and field.name not in given
        ]
        if missing and is_good:
            names = " and a ".join(spelling(name).plain for name in missing)
            self.refuse(path, f"this needs a {names}")
        if missing:
            raise CannotConvert
        try:
            return kind(**given)
        except ValueError as error:
            if is_good:
                self.refuse(path, str(error))
            raise CannotConvert from None

    def _field(
        self,
        kind: type[msgspec.Struct],
        name: str,
        value: object,
        path: Path,
        own_words: Collection[str],
    ) -> tuple[str, Any]:
        names = names_of(kind)
        if name not in names:
            known = {spelling(field).plain for field in types_of(kind)} | {*own_words}
            raise self.refuse(path, f"there is no such field here{suggestion(name, known)}")
        field, unit = names[name]
        wanted = types_of(kind)[field]
        if (codes := NUMBERS.get((kind, field))) is not None and isinstance(value, str):
            return field, self._code(codes, value, path)
        return field, self._quantity(value, wanted, path, field, unit)

    def _quantity(
        self, value: object, wanted: object, path: Path, field: str, must_be: Unit | None
    ) -> object:
        unit = spelling(field).unit
        if unit is None:
            return self.value(value, wanted, path)
        is_bare_refused = must_be is not None
        if isinstance(value, list):
            parts = enumerate(value)
            numbers = [self._in_unit(n, unit, (*path, at), is_bare_refused) for at, n in parts]
            return self.value(numbers, wanted, path)
        return self.value(self._in_unit(value, unit, path, is_bare_refused), wanted, path)

    def _in_unit(self, value: object, unit: Unit, path: Path, is_bare_refused: bool) -> object:
        """A text as a number of *unit*; other values unchanged, or refused without a unit."""
        if isinstance(value, str):
            try:
                exact = parse(value, unit)
            except ValueError as error:
                if not is_bare_refused and path in self._of_parameters:
                    return value
                raise self.refuse(path, str(error)) from None
            return int(exact) if exact == exact.to_integral_value() else float(exact)
        if is_bare_refused and _is_number(value):
            text = f'{value} of what? Write it with its unit, such as "{unit.example}"'
            raise self.refuse(path, text)
        return value

    def _code(self, codes: Mapping[str, int], value: str, path: Path) -> int:
        if value not in codes:
            raise self.refuse(path, f"there is no code {value!r}{suggestion(value, codes)}")
        return int(codes[value])

    # Values by type -----------------------------------------------------------------------

    def value(self, value: object, wanted: object, path: Path) -> object:
        """*value* as the type *wanted*.  Raises ``CannotConvert``."""
        if wanted is Any:
            return value
        if path in self._of_parameters:
            value = _of_a_parameter(value, wanted)
        read = KINDS.get(typing.get_origin(wanted))
        if read is not None:
            return read(self, value, typing.get_args(wanted), path)
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            return self.struct(wanted, value, path)
        return self._plain(value, wanted, path)

    def _plain(self, value: object, wanted: object, path: Path) -> object:
        if wanted is float and _is_number(value):
            return float(typing.cast("float", value))
        if wanted is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if type(value) is wanted:
            return value
        raise self.refuse(path, f"is {TYPES[wanted]}, not {_shown(value)}")

    def one_of(self, value: object, kinds: tuple[object, ...], path: Path) -> object:
        """*value* as the first of *kinds* that fits: a tuple for a list, else another kind."""
        wanted = [kind for kind in kinds if kind is not type(None)]
        is_list = isinstance(value, list)
        for kind in wanted:
            if (typing.get_origin(kind) is tuple) == is_list:
                return self.value(value, kind, path)
        return self.value(value, wanted[0], path)

    def word(self, value: object, words: tuple[object, ...], path: Path) -> object:
        """*value*, if it is one of *words*.  Raises ``CannotConvert``."""
        if value in words:
            return value
        raise self.refuse(path, f"is one of {', '.join(map(str, words))}, not {_shown(value)}")

    def list(self, value: object, kinds: tuple[object, ...], path: Path) -> object:
        """A tuple of values of *kinds*; a single value may stand for a list of any length.

        Raises ``CannotConvert``.
        """
        is_open = kinds[-1] is Ellipsis
        if is_open and not isinstance(value, list) and type(value) is kinds[0]:
            value = [value]  # one name instead of a list
        if not isinstance(value, list):
            raise self.refuse(path, f"is a list, not {_shown(value)}")
        if not is_open and len(value) != len(kinds):
            raise self.refuse(path, f"is a list of {len(kinds)}, not of {len(value)}")
        if not is_open:
            each = zip(value, kinds, strict=True)
            return tuple(
                self.value(part, kind, (*path, at)) for at, (part, kind) in enumerate(each)
            )
        found: list[object] = []
        is_good = True
        for at, part in enumerate(value):
            try:
                made = self.value(part, kinds[0], (*path, at))
            except CannotConvert:
                is_good = False
                continue
            if at != len(found):
                self.moved[*path, len(found)] = (*path, at)
            found.append(made)
        if not is_good and not _is_struct(kinds[0]):
            raise CannotConvert
        return tuple(found)

    def table(self, value: object, kinds: tuple[object, ...], path: Path) -> object:
        """A table with any keys; without those of structs that cannot be made.

        Raises ``CannotConvert``.
        """
        if not isinstance(value, Mapping):
            raise self.refuse(path, f"is a table, not {_shown(value)}")
        found, is_good = {}, True
        for name, part in value.items():
            try:
                found[name] = self.value(part, kinds[1], (*path, name))
            except CannotConvert:
                is_good = False
        if not is_good and not _is_struct(kinds[1]):
            raise CannotConvert
        return found


KINDS: Mapping[Any, Callable[[StructConverter, object, tuple[Any, ...], Path], Any]] = {
    Union: StructConverter.one_of,
    types.UnionType: StructConverter.one_of,
    Literal: StructConverter.word,
    tuple: StructConverter.list,
    dict: StructConverter.table,
}


def _of_a_parameter(value: object, wanted: object) -> object:
    """A parameter's value as *wanted*: a number as text, or a text as number or boolean."""
    if wanted is str and not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if wanted in (int, float, bool) and isinstance(value, str):
        try:
            return msgspec.convert(value, wanted, strict=False)
        except msgspec.ValidationError:
            return value
    return value


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return repr(value) if isinstance(value, str) else str(value)
