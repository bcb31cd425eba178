"""The end of an error about an unknown name: the nearest known name, or all known names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NAMES_SHOWN_MAX = 12


def nearest_names(name: str, known: Iterable[str], count_max: int) -> list[str]:
    """The known names that are similar to *name*, the most similar first."""
    return difflib.get_close_matches(name, [*known], n=count_max)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar to *name*; empty if none is."""
    return next(iter(nearest_names(name, known, 1)), "")


def did_you_mean(
    name: str, known: Iterable[str], *, before: str = "", otherwise: str | None = None
) -> str:
    """``did you mean kill?``, after *before*; or *otherwise*, by default ``there are a, b``."""
    known = [*known]
    if near := nearest(name, known):
        return f"{before}did you mean {near}?"
    return f"there are {', '.join(known)}" if otherwise is None else otherwise


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean kill?``, or the first of the known names: ``; there are a, b``."""
    names = sorted(set(known))
    if near := nearest(name, names):
        return f"; did you mean {near}?"
    if not names:
        return "; there is none"
    shown = ", ".join(names[:NAMES_SHOWN_MAX]) + (" …" if len(names) > NAMES_SHOWN_MAX else "")
    return f"; there {'is' if len(names) == 1 else 'are'} {shown}"
