"""What takes facts: a table of kinds and methods, which every fold over a journal has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from emulator.facts import Fact
from emulator.journal import Entry

Take: TypeAlias = Callable[[Any, Entry], object]  # the fact, typed as in the table, its entry
Table: TypeAlias = Mapping[type[Fact], Take]
