"""Parses faults given outside of Python: JSON of the control address, and options.

    {"fault": "slow_link", "between": ["broker-a", "clients"], "ms": 200, "for": "20s"}

Errors name the invalid part and the most similar valid word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import get_args

import msgspec

from rocketmq_emulator.cluster.fault_values import FAULTS, AnyFault, Distribution
from rocketmq_emulator.cluster.faults.register import FOR_MS_MAX
from rocketmq_emulator.protocol.bodies.extensions import (
    POOL_NAMES,
    ReplyRule,
    with_suggestion,
)
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.text.suggestions import did_you_mean

WORD, FOR = "fault", "for"  # members that are not fields of the struct
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)")
WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got .* - at `\$\.(\w+)`")
TYPES = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
WRONG_CHOICE = re.compile(r"Invalid enum value '([^']*)' - at `\$\.(\w+)`")
CHOICES = {"pool": POOL_NAMES, "distribution": get_args(Distribution)}
MISSING_FIELD = re.compile(r"Object missing required field `(\w+)`")


class BadFault(Misuse):
    """The text or JSON is not a valid fault; nothing has changed."""


def parse_fault(given: object) -> tuple[AnyFault, int | None]:
    """The fault and its duration in ms, if it has one.  Raises ``BadFault``."""
    if not isinstance(given, Mapping):
        raise BadFault('a fault is an object: {"fault": "kill", "node": "broker-a"}')
    values = dict(given)
    word, duration = values.pop(WORD, None), values.pop(FOR, None)
    for_ms = None if duration is None else parse_duration_ms(duration)
    if not isinstance(word, str):
        raise BadFault(f"the member fault must be one of {', '.join(FAULTS)}")
    kind = FAULTS.get(word)
    if kind is None:
        raise BadFault(f"there is no fault {word!r}{advice(word, FAULTS)}")
    fields = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in values:
        if name not in fields:
            raise BadFault(f"{word} has no field {name!r}{advice(name, fields)}")
    try:
        given = {WORD: word, **values}
        fault: AnyFault = msgspec.convert(given, type=AnyFault)
    except msgspec.ValidationError as error:
        raise BadFault(f"{word}: {_plain(str(error))}") from error
    return fault, for_ms


def parse_duration_ms(given: object) -> int:
    """The milliseconds of ``"20s"``, ``"200ms"`` or ``"2m"``.  Raises ``BadFault``."""
    match = DURATION.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise BadFault(f"{given!r} is no duration: write 200ms, 20s, 2m or 1h")
    ms = round(float(match[1]) * UNITS_MS[match[2]])
    if not 1 <= ms <= FOR_MS_MAX:
        raise BadFault(f"for is a time from 1ms to {FOR_MS_MAX // UNITS_MS['h']}h, not {given}")
    return ms


def advice(word: str, known: Iterable[str]) -> str:
    """The end of an error text about an unknown *word*: a suggestion or the known words."""
    known = [*known]
    return did_you_mean(word, known, before="; ", otherwise=f": there are {', '.join(known)}")


def _plain(text: str) -> str:
    """An error text of msgspec, in the terms of docs/faults.md."""
    if (match := WRONG_CHOICE.match(text)) is not None:
        wrong, field = match[1], match[2]
        return f"{field} has no value {wrong!r}{advice(wrong, CHOICES.get(field, ()))}"
    if text.endswith("`$.rule`"):
        return f"rule: {with_suggestion(text, ReplyRule).removesuffix(' - at `$.rule`')}"
    if (match := MISSING_FIELD.match(text)) is not None:
        return f"the field {match[1]} is missing"
    if (match := WRONG_TYPE.match(text)) is not None:
        wanted, field = match[1], match[2]
        return f"{field} is {TYPES.get(wanted, wanted)}"
    return text
