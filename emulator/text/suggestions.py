"""The end of a sentence that refuses an unknown name: the nearest known one, or all there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NAMES_SHOWN_MAX = 12


def nearest_names(name: str, known: Iterable[str], count_max: int) -> list[str]:
    """The known names that are like *name*, the most similar first."""
    return difflib.get_close_matches(name, [*known], n=count_max)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like *name*; empty if none is like it."""
    return next(iter(nearest_names(name, known, 1)), "")


def did_you_mean(
    name: str, known: Iterable[str], *, before: str = "", otherwise: str | None = None
) -> str:
    """``did you mean kill?``, behind *before*; or *otherwise*, by default ``there are a, b``."""
    known = [*known]
    if near := nearest(name, known):
        return f"{before}did you mean {near}?"
    return f"there are {', '.join(known)}" if otherwise is None else otherwise


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean kill?``, or what there is: ``; there are a, b``, cut where it is long."""
    names = sorted(set(known))
    if near := nearest(name, names):
        return f"; did you mean {near}?"
    if not names:
        return "; there is none"
    shown = ", ".join(names[:NAMES_SHOWN_MAX]) + (" …" if len(names) > NAMES_SHOWN_MAX else "")
    return f"; there {'is' if len(names) == 1 else 'are'} {shown}"
