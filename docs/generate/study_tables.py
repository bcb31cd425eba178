"""The tables of docs/studies, from the shipped data: without a run or Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from docs.generate import study_idle, study_modes, study_penalties, study_skew

SECTIONS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "skew": study_skew.SECTIONS,
    "idle": study_idle.SECTIONS,
    "penalties": study_penalties.SECTIONS,
    "modes": study_modes.SECTIONS,
}
