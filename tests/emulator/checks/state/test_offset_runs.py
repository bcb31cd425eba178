"""``OffsetRuns`` gives the same results as a set of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.checks.rules.timing import VALUES_MAX, Quantiles
from rocketmq_emulator.checks.state.offset_runs import OffsetRuns

SMALL = st.integers(0, 30)
ACTS = st.lists(st.one_of(SMALL, st.tuples(SMALL, SMALL), st.builds(str, SMALL)), max_size=40)


def after(acts) -> tuple[OffsetRuns, set[int]]:
    """A number adds an offset, a pair a run; a string removes all offsets from there on."""
    runs, plain = OffsetRuns(), set()
    for act in acts:
        if isinstance(act, int):
            assert runs.add(act) == (act not in plain)
            plain.add(act)
        elif isinstance(act, tuple):
            runs.add_run(*act)
            plain |= set(range(*act))
        else:
            runs.cut(int(act))
            plain = {each for each in plain if each < int(act)}
    return runs, plain


@given(ACTS, SMALL, SMALL)
def test_runs_are_a_set(acts, start: int, end: int) -> None:
    runs, plain = after(acts)
    everything = range(40)
    assert [each in runs for each in everything] == [each in plain for each in everything]
    assert len(runs) == len(plain)
    found = {each for run in runs.runs(start, end) for each in range(*run)}
    holes = {each for run in runs.holes(start, end) for each in range(*run)}
    assert found == plain & set(range(start, end))
    assert holes == set(range(start, end)) - plain
    assert runs.first_missing(start) == next(n for n in range(start, 99) if n not in plain)


@given(ACTS)
def test_runs_never_touch(acts) -> None:
    runs, _ = after(acts)
    assert all(end < start for end, start in zip(runs.ends, runs.starts[1:], strict=False))
    assert all(start < end for start, end in zip(runs.starts, runs.ends, strict=True))


@given(st.lists(st.integers(0, 10**12), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_at_most_two_percent_below(values: list[int], share: float) -> None:
    sketch = Quantiles()
    for value in values:
        sketch.add(value)
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    assert 0.98 * exact <= sketch.at(share) <= exact


def test_quantiles_of_many_different_values_keep_their_bound_and_their_largest() -> None:
    sketch = Quantiles()
    for value in range(3 * VALUES_MAX):
        sketch.add(value)
    assert sketch.max == 3 * VALUES_MAX - 1
    assert 0.98 * 1.5 * VALUES_MAX <= sketch.at(0.5) <= 1.5 * VALUES_MAX
    assert sketch.at(0.5) == sketch.at(0.5)
