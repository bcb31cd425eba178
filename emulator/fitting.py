"""Fields by name made into a struct; what does not fit is said by name.

    Producer has no setting 'sync_retry': did you mean sync_retries?
    send_timeout_ms is an int, not str '3s'

msgspec does the work; only when it refuses, the first field that is wrong is looked for.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from protocol.arguments import not_a

S = TypeVar("S", bound=msgspec.Struct)


class BadField(msgspec.ValidationError, ValueError):
    """A field there is not, of another type or value, or missing; the text says which."""


def fitted(
    kind: type[S], given: Mapping[str, Any], owner: str, elsewhere: Mapping[str, str] | None = None
) -> S:
    """A *kind* of these fields, which *owner* was given.

    *elsewhere* are other names that people may use, with ours.
    Raises ``BadField``.
    """
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        for name, value in given.items():
            if name not in fields:
                meant = _meant(name, fields, elsewhere or {})
                raise BadField(f"{owner} has no setting {name!r}{meant}") from None
            _check_type(name, fields[name].type, value)
        for name, field in fields.items():
            if field.required and name not in given:
                raise BadField(f"{owner} needs a {name}: {owner}({name}=…)") from None
        raise _cause(error) from None


def _cause(error: BaseException) -> BadField:
    """What the struct itself said, without where in the struct that was."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BadField):
            return cause
        cause = cause.__cause__
    return BadField(str(error))


def _check_type(name: str, wanted: Any, value: object) -> None:
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        if isinstance(value, Mapping):  # the error names a field of it
            if (cause := _cause(error)).__class__ is not BadField:
                raise cause from None
            raise BadField(f"{name}: {error}") from None
        raise BadField(not_a(name, _described(wanted), value)) from None


def _described(wanted: Any) -> str:
    parts = typing.get_args(wanted)
    if typing.get_origin(wanted) is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if isinstance(wanted, types.UnionType):
        return " or ".join(_described(part) for part in parts)
    if wanted is type(None):
        return "None"
    name = (typing.get_origin(wanted) or wanted).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _meant(name: str, fields: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    plain = {_plain(theirs): ours for theirs, ours in elsewhere.items() if ours in fields}
    plain |= {_plain(ours): ours for ours in fields}
    near = difflib.get_close_matches(_plain(name), plain, n=1)
    return f": did you mean {plain[near[0]]}?" if near else ""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
