"""What the study of replication modes says was found is in its data."""

from __future__ import annotations

import pytest

from docs.generate.study_data import Pool, pooled
from docs.generate.study_modes import (
    AT_SLAVES,
    DUPLICATES,
    FAILED,
    FAULTS,
    GONE,
    READS,
    SHOWN,
    WRITES,
)

AWAY_S = 60
SWEEPS = ("modes-4.9.7", "modes-5.3.3")
ELECTED = ("controller", "controller_acks")
DEATHS = tuple(fault for fault in FAULTS if fault != "link")
SILENT = ("hang", "power_off", "cut_off")


def of(metric: str, mode: str, fault: str, *, slaves: int = 1, sweep: str = "modes-5.3.3") -> Pool:
    return pooled(sweep, metric, mode=mode, slaves=slaves, fault=fault)


@pytest.mark.parametrize("slaves", [1, 2])
@pytest.mark.parametrize("fault", DEATHS)
def test_only_an_election_ends_the_time_without_writes_before_the_master_is_back(
    fault, slaves
) -> None:
    for shown in SHOWN:
        found = pooled(shown.sweep, WRITES, mode=shown.mode, slaves=slaves, fault=fault)
        if shown.mode in ELECTED:
            assert found.most < AWAY_S
        else:
            assert found.least >= AWAY_S


@pytest.mark.parametrize("mode", ELECTED)
def test_a_silent_master_is_replaced_twelve_seconds_later_than_a_killed_one(mode) -> None:
    killed = of(WRITES, mode, "kill")
    assert (round(killed.least), round(killed.mean), round(killed.most)) == (3, 15, 27)
    for fault in SILENT:
        silent = of(WRITES, mode, fault)
        assert (round(silent.least), round(silent.mean), round(silent.most)) == (15, 27, 39)


def test_a_returning_master_waits_five_seconds_for_each_slave_that_may_act() -> None:
    kills = [of(WRITES, "acting", "kill", slaves=slaves) for slaves in (1, 2)]
    assert [round(kill.mean) - AWAY_S for kill in kills] == [5, 10]
    cut = of(WRITES, "acting", "cut_off")
    assert (round(cut.least), round(cut.most)) == (62, 86)


def test_a_backlog_is_read_on_after_25_to_27_s_where_another_broker_serves_it() -> None:
    served = [of(READS, mode, fault) for mode in ("acting", *ELECTED) for fault in DEATHS]
    served += [of(READS, mode, "kill", sweep="modes-4.9.7") for mode in ("async", "sync")]
    assert {round(pool.mean) for pool in served} == {25, 27}
    alone = [of(READS, mode, fault) for mode in ("async", "sync") for fault in DEATHS]
    alone += [of(READS, "async", fault, sweep="modes-4.9.7") for fault in SILENT]
    assert {round(pool.mean) for pool in alone} == {61, 62, 85, 86}


def test_only_a_loss_of_power_without_an_election_loses_messages() -> None:
    for shown in SHOWN:
        for fault in FAULTS:
            at = {"mode": shown.mode, "slaves": 1, "fault": fault}
            assert pooled(shown.sweep, GONE, **at).most == 0
            unread = pooled(shown.sweep, AT_SLAVES, **at).most
            assert (unread > 0) == (fault == "power_off" and shown.mode not in ELECTED)
            assert unread <= 27


@pytest.mark.parametrize("mode", ELECTED)
def test_a_clean_election_waits_for_a_slave_that_is_behind(mode) -> None:
    behind = pooled("modes-behind", WRITES, mode=mode, fault="kill")
    assert round(behind.mean) == AWAY_S
    unclean = {"mode": "controller_unclean"}
    times = [pooled("modes-behind", WRITES, fault=f, **unclean) for f in ("kill", "power_off")]
    assert [round(time.mean) for time in times] == [15, 27]
    lost = pooled("modes-behind", GONE, fault="kill", **unclean)
    assert (lost.least, lost.most) == (600, 600)


def test_a_hang_duplicates_messages_unless_the_master_is_replaced() -> None:
    alone = of(DUPLICATES, "async", "hang")
    assert (round(alone.mean), round(of(FAILED, "async", "hang").mean)) == (2290, 1145)
    assert [of(DUPLICATES, mode, "hang").most for mode in ELECTED] == [0, 0]


def test_a_slave_that_is_cut_off_stops_the_writes_that_wait_for_it() -> None:
    sync_4, sync_5 = (of(WRITES, "sync", "link", sweep=sweep) for sweep in SWEEPS)
    in_set = of(WRITES, "controller_acks", "link")
    assert round(sync_4.mean) == 18
    assert sync_5.least > 57
    assert (round(in_set.least), round(in_set.mean), round(in_set.most)) == (14, 17, 20)
    assert of(WRITES, "async", "link").most < 1
