"""Upper bounds of durations: each is kept, and nearly reached."""

from __future__ import annotations

import pytest

from docs.generate import bounds
from docs.generate.sections import with_section


@pytest.fixture(scope="module")
def rows():
    return bounds.rows()


@pytest.mark.parametrize(
    "at", range(len(bounds.BOUNDS)), ids=[f"{b.scenario}-{b.at_most:g}" for b in bounds.BOUNDS]
)
def test_what_is_measured_is_within_the_bound_and_close_to_it(rows, at) -> None:
    bound = bounds.BOUNDS[at]
    assert rows[at].violations == (), rows[at].reason
    measured = rows[at].metrics[bound.metric]
    assert bound.nearly <= measured <= bound.at_most


def test_the_page_shows_what_is_measured(rows) -> None:
    page = bounds.PAGE.read_text()
    assert with_section(page, "bounds", bounds.bounds_text(rows)) == page, "run make page"
