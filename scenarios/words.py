"""The words of a timeline: every fault and every act by the word that people write.

One table for TOML files, for Python scenarios and for the pages, made from the structs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

import msgspec

from emulator.cluster.faults.values import AnyFault, Fault, LinkFault
from scenarios.plan import Act, AnyAct

Does: TypeAlias = Fault | Act


def word_of(does: Does | type[Does]) -> str:
    """``kill``, ``slow_link``, ``join`` …"""
    word = does.__struct_config__.tag
    assert isinstance(word, str)
    return word


FAULTS: Mapping[str, type[Fault]] = {word_of(kind): kind for kind in get_args(AnyFault)}
ACTS: Mapping[str, type[Act]] = {word_of(kind): kind for kind in get_args(AnyAct)}
WORDS: Mapping[str, type[Does]] = {**FAULTS, **ACTS}
assert len(WORDS) == len(FAULTS) + len(ACTS), "a word means one thing"


def first_field(kind: type[msgspec.Struct], value: object) -> str:
    """The field that is meant where only *value* is given: ``kill = "broker-b"``.

    The first one; of a link's fault ``around`` for one name and ``between`` for a pair.
    """
    if issubclass(kind, LinkFault):
        return "around" if isinstance(value, str) else "between"
    return kind.__struct_fields__[0]


def changed_fields(value: msgspec.Struct) -> dict[str, Any]:
    """The fields that are not as by default, in their order."""
    found = {}
    for field in msgspec.structs.fields(value):
        given = getattr(value, field.name)
        if field.required or given != _default(field):
            found[field.name] = given
    return found


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default
