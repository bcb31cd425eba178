"""A table whose entries are written once, however often the table is.

A broker writes its topics for every registration, for every tool that asks and for their
file; of thousands of topics one has changed since.  So the text of each entry is kept, for
each form it was written in, until the entry changes.  The values must be immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

Value = TypeVar("Value")

Texts = dict[str, tuple[Any, str]]


class TextTable(dict[str, Value]):
    """A dict of immutable values that keeps the text of its entries."""

    def __init__(self, entries: Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__(entries)
        self._forms: dict[Hashable, Texts] = {}

    def part(self, names: Iterable[str]) -> TextTable[Value]:
        """These entries alone, those of them that there are; texts are shared."""
        part = TextTable((name, self[name]) for name in names if name in self)
        part._forms = self._forms  # one of us
        return part

    def texts(self, form: Hashable, write: Callable[[str, Value], str]) -> list[str]:
        """The text of every entry in *form*, in the table's order; *write* makes new ones."""
        kept = self._forms.setdefault(form, {})
        texts = []
        for name, value in self.items():
            known = kept.get(name)
            if known is None or known[0] is not value:
                known = kept[name] = value, write(name, value)
            texts.append(known[1])
        return texts

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        for kept in self._forms.values():
            kept.pop(name, None)

    def pop(self, name: str, *default: Any) -> Any:
        """As ``dict.pop``; the text goes too."""
        if name in self:
            value = self[name]
            del self[name]
            return value
        return super().pop(name, *default)
