"""Nine short histories have the same outcome on our brokers as on real ones, with any client.

The clients are the official ones for Java and Go, and ours for trio, threads and asyncio.  The
outcomes on real brokers are recorded; with the marker ``parity`` the histories run on real ones
again, and ``RECORD=1`` overwrites the recording.
"""

from __future__ import annotations

import os

import pytest

from tests.histories.all_runs import CLIENTS, Key, Outcomes, run_all
from tests.histories.histories import HISTORIES
from tests.histories.recording import DIFFERENT_CLIENTS, difference, record, recorded
from tests.parity.conftest import missing_for_real

RELEASES = ("4.9.7", "5.3.3")
KEYS = [
    Key(history, release, client)
    for client in CLIENTS
    for release in RELEASES
    for history in HISTORIES
]
PARITY_S_MAX = 1_500  # the first test runs all histories on both releases
IDS = [" ".join(key) for key in KEYS]


@pytest.fixture(scope="module")
def ours() -> Outcomes:
    """All histories on our clusters; both releases at the same time."""
    return run_all([f"ours-{release}" for release in RELEASES])


@pytest.fixture(scope="module")
def real() -> Outcomes:
    """All histories on a real cluster of each release, one after the other."""
    if missing := missing_for_real():
        _skip(missing)
    found = Outcomes({}, {})
    for release in RELEASES:
        outcomes, absent = run_all([f"real-{release}"])
        found.outcomes.update(outcomes)
        found.missing.update(absent)
    if os.environ.get("RECORD") == "1":
        record(found.outcomes)
    return found


@pytest.mark.sdk
@pytest.mark.parametrize("key", KEYS, ids=IDS)
def test_a_history_has_the_recorded_outcome_on_ours(key: Key, ours: Outcomes) -> None:
    if key.client in ours.missing:
        _skip(ours.missing[key.client])
    assert ours.outcomes[key] == recorded()[key]


@pytest.mark.parity
@pytest.mark.timeout(PARITY_S_MAX)
@pytest.mark.parametrize("key", KEYS, ids=IDS)
def test_a_history_still_has_the_recorded_outcome_on_a_real_one(key: Key, real: Outcomes) -> None:
    if key.client in real.missing:
        _skip(real.missing[key.client])
    assert real.outcomes[key] == recorded()[key]


def test_every_run_is_recorded() -> None:
    assert set(recorded()) == set(KEYS)


@pytest.mark.parametrize("key", KEYS, ids=IDS)
def test_an_outcome_depends_on_the_client_only_where_it_is_explained(key: Key) -> None:
    known = recorded()
    is_same = known[key] == known[key._replace(client="java-4.9.8")]
    assert is_same == (difference(key) == ""), difference(key)


def test_every_explained_difference_is_of_a_run() -> None:
    found = {(key.history, release, key.client) for key in KEYS for release in (key.release, "")}
    assert found >= set(DIFFERENT_CLIENTS)


def _skip(reason: str) -> None:
    if os.environ.get("REQUIRE_PARTS") == "1":
        pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
    pytest.skip(reason)
