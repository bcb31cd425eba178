"""Numbers with their unit: "30s", "200ms", "1KiB", "200/s".

A field of a plan has its unit in its name (``for_ms``, ``size_bytes``, ``virtual_s_max``).  A file
may leave it out of the name and write it in the value: ``for = "20s"``.  Then a number without a
unit is refused, because its meaning would be unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

DURATIONS_MS = {
    "us": Decimal("0.001"),
    "ms": Decimal(1),
    "s": Decimal(1_000),
    "m": Decimal(60_000),
    "h": Decimal(3_600_000),
}
SIZES = {
    "B": Decimal(1),
    "KiB": Decimal(1024),
    "MiB": Decimal(1024**2),
    "GiB": Decimal(1024**3),
    "kB": Decimal(1000),
    "MB": Decimal(1000**2),
    "GB": Decimal(1000**3),
}
QUANTITY = re.compile(r"\s*([+-]?\d+(?:_\d+)*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z/]*)\s*")
NAME = re.compile(r"(?:(?P<base>[a-z_]+)_)?(?P<unit>ms|s|bytes)(?P<end>_max)?")


class Unit(NamedTuple):
    """The suffixes that a number may have, with factors to the field's own unit; an example."""

    what: str
    suffixes: Mapping[str, Decimal]
    example: str


def _per_second(suffixes: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {f"{suffix}/s": factor for suffix, factor in suffixes.items()}


UNITS = {
    "ms": Unit("a duration", DURATIONS_MS, "30s"),
    "s": Unit("a duration", {k: v / 1_000 for k, v in DURATIONS_MS.items()}, "30s"),
    "bytes": Unit("a size", SIZES, "1KiB"),
    "bytes_per_s": Unit("a bandwidth", _per_second(SIZES), "1MiB/s"),
    "rate": Unit("a rate", {"/s": Decimal(1), "/m": 1 / Decimal(60)}, "200/s"),
}


class Spelling(NamedTuple):
    """The name of a field in a file, and the unit that its value may have, if any."""

    plain: str  # without the unit
    unit: Unit | None


def spelling(field: str) -> Spelling:
    """The ``Spelling`` of *field*: ``for_ms`` is ``for``, ``virtual_s_max`` is ``virtual_max``.

    ``ms`` stays ``ms``.
    """
    if field in ("rate", "bytes_per_s"):
        return Spelling(field, UNITS[field])
    if (found := NAME.fullmatch(field)) is None:
        return Spelling(field, None)
    base = found["base"]
    return Spelling(f"{base}{found['end'] or ''}" if base else field, UNITS[found["unit"]])


def parse(text: str, unit: Unit) -> Decimal:
    """*text* as a number of the field's unit.  Raises ``ValueError``, with an example."""
    found = QUANTITY.fullmatch(text)
    if found is None or not found[2]:
        raise ValueError(f'is {unit.what} with its unit, such as "{unit.example}", not {text!r}')
    if found[2] not in unit.suffixes:
        known = ", ".join(unit.suffixes)
        raise ValueError(f"{text!r}: {unit.what} has one of the units {known}")
    return Decimal(found[1].replace("_", "")) * unit.suffixes[found[2]]


def written(value: float, unit: Unit) -> str:
    """*value* with the largest unit that needs no fraction; ``parse`` returns it exactly."""
    exact = Decimal(repr(value))
    if not exact:
        return f"0{next(iter(unit.suffixes)) if unit.what != 'a duration' else 's'}"
    for suffix, factor in sorted(unit.suffixes.items(), key=lambda item: -item[1]):
        count = exact / factor
        if count == count.to_integral_value() and abs(count) < 10_000 and count * factor == exact:
            return f"{int(count)}{suffix}"
    own = next(suffix for suffix, factor in unit.suffixes.items() if factor == 1)
    return f"{value!r}{own}"
