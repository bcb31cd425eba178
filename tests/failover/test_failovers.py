"""Fail-overs of masters, slaves and controllers: clients see the same as on a real cluster.

The clients are the official one for Java and ours.  The outcomes on real clusters are recorded;
with the marker ``parity`` the histories run on real ones again, one after the other, and
``RECORD=1`` overwrites the recording.
"""

from __future__ import annotations

import json
import os

import pytest

from tests.failover.all_failovers import KEYS, OUR_CLUSTERS_AT_ONCE, Key, outcomes_on
from tests.failover.failover_histories import Facts
from tests.parity.conftest import missing_for_real
from tests.sdk.toolchains import PartMissing
from tests.support.paths import GOLDEN

RECORD = GOLDEN / "failovers.jsonl"
PARITY_S_MAX = 2_400  # the first test runs all histories on both releases
OURS_S_MAX = 600
IDS = [" ".join(key) for key in KEYS]


def recorded() -> dict[Key, Facts]:
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    found = map(json.loads, lines)
    return {
        Key(line["history"], line["release"], line["client"]): line["outcome"] for line in found
    }


def record(outcomes: dict[Key, Facts]) -> None:
    """Write the recording anew.  Raises ``AssertionError`` if a history failed."""
    failed = {key: outcome for key, outcome in outcomes.items() if "failed" in outcome}
    assert not failed, failed
    lines = [{**key._asdict(), "outcome": outcomes[key]} for key in KEYS]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    RECORD.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def ours() -> dict[Key, Facts]:
    try:
        return outcomes_on("ours", at_once=OUR_CLUSTERS_AT_ONCE)
    except PartMissing as missing:
        _skip(str(missing))
        raise


@pytest.fixture(scope="module")
def real() -> dict[Key, Facts]:
    if missing := missing_for_real():
        _skip(missing)
    found = outcomes_on("real")
    if os.environ.get("RECORD") == "1":
        record(found)
    return found


@pytest.mark.sdk
@pytest.mark.timeout(OURS_S_MAX)
@pytest.mark.parametrize("key", KEYS, ids=IDS)
def test_a_failover_has_the_recorded_outcome_on_ours(key: Key, ours: dict[Key, Facts]) -> None:
    assert ours[key] == recorded()[key]


@pytest.mark.parity
@pytest.mark.timeout(PARITY_S_MAX)
@pytest.mark.parametrize("key", KEYS, ids=IDS)
def test_a_failover_still_has_the_recorded_outcome_on_a_real_one(
    key: Key, real: dict[Key, Facts]
) -> None:
    assert real[key] == recorded()[key]


def test_every_failover_is_recorded() -> None:
    assert list(recorded()) == KEYS


@pytest.mark.parametrize("key", KEYS, ids=IDS)
def test_the_outcome_of_a_failover_does_not_depend_on_the_client(key: Key) -> None:
    known = recorded()
    assert known[key] == known[key._replace(client="java-4.9.8")]


def _skip(reason: str) -> None:
    if os.environ.get("REQUIRE_PARTS") == "1":
        pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
    pytest.skip(reason)
