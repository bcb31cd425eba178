"""Parameters of a file: ``$members`` has a default, and is set by ``--set members=5``.

A text that is only ``$members`` is replaced by the parameter's value, with its type; within a
longer text ``$members`` is replaced by the value as text.  ``$$`` is a dollar sign.  Keys of
tables may have parameters, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from rocketmq_emulator.scenarios.plan.problems import Path, Problem
from rocketmq_emulator.text.suggestions import suggestion

Value: TypeAlias = bool | int | float | str

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
WHOLE = re.compile(rf"\$({NAME})")
WITHIN = re.compile(rf"\$(?:(\$)|({NAME}))")
BOOLEANS = {"true": True, "false": False}
SET = "--set"


def parameter_values(
    defaults: Mapping[str, Value], given: Mapping[str, Value | str]
) -> tuple[dict[str, Value], list[Problem]]:
    """The value of each parameter, and problems; *given* texts get the type of the default."""
    values, problems = dict(defaults), []
    for name, value in given.items():
        if name not in defaults:
            text = f"there is no parameter {name!r}{suggestion(name, defaults)}"
            problems.append(Problem((f"{SET} {name}",), text))
            continue
        try:
            values[name] = _as(defaults[name], value)
        except ValueError as error:
            problems.append(Problem((f"{SET} {name}",), str(error)))
    return values, problems


def _as(default: Value, given: Value) -> Value:
    if not isinstance(given, str) or isinstance(default, str):
        return given
    if isinstance(default, bool):
        if given.lower() not in BOOLEANS:
            raise ValueError(f"is true or false, not {given!r}")
        return BOOLEANS[given.lower()]
    for kind in (int, float):
        try:
            return kind(given)
        except ValueError:
            continue
    raise ValueError(f"is a number, as {default} is, not {given!r}")


class Substitution:
    """Replaces parameters in a document; ``used`` and ``places`` are those that it replaced."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = values
        self.used: set[str] = set()
        self.places: set[Path] = set()
        self.problems: list[Problem] = []
        self.moved: dict[Path, Path] = {}  # keys with parameters: new path to path in the file

    def into(self, value: object, path: Path = (), origin: Path | None = None) -> object:
        """*value* with all parameters replaced; *origin* is its path in the document."""
        origin = path if origin is None else origin
        if origin != path:
            self.moved[path] = origin
        if isinstance(value, dict):
            found = {}
            for key, part in value.items():
                name = str(self._text(key, (*origin, key)))
                found[name] = self.into(part, (*path, name), (*origin, key))
            return found
        if isinstance(value, list):
            return [self.into(part, (*path, at), (*origin, at)) for at, part in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) else value

    def _text(self, text: str, path: Path) -> Value:
        if "$" not in text:
            return text
        if (whole := WHOLE.fullmatch(text)) is not None:
            return self._value(whole[1], path)
        return WITHIN.sub(lambda found: found[1] or _shown(self._value(found[2], path)), text)

    def _value(self, name: str, path: Path) -> Value:
        if name not in self.values:
            text = f"there is no parameter {name!r}{suggestion(name, self.values)}"
            self.problems.append(Problem(path, f"{text}; a dollar sign is written $$"))
            return ""
        self.used.add(name)
        self.places.add(path)
        return self.values[name]


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
