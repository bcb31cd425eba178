"""Which issues the library reproduces: the numbers of the project's list, and their scenarios."""

from __future__ import annotations

import pytest

from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder, load
from tests.support.paths import ROOT

COVERED = {  # number in the list: an issue named there, the scenario that reproduces it
    "S01": ("apache/rocketmq#2621", "orderly_queues_are_taken_over"),
    "S02": ("apache/rocketmq-client-go#994", "an_orderly_member_is_killed"),
    "S04": ("alibaba/RocketMQ#459", "an_orderly_listener_suspends_for_minutes"),
    "S05": ("apache/rocketmq-client-cpp#345", "an_orderly_group_never_begins"),
    "S06": ("apache/rocketmq#1825", "a_broker_dies_between_lock_and_first_pull"),
    "S07": ("apache/rocketmq#7812", "a_broker_was_busy_once"),
    "S08": ("apache/rocketmq#7779", "all_brokers_were_slow_once"),
    "S09": ("apache/rocketmq#5672", "one_queue_gets_the_share_of_a_broker"),
    "S10": ("apache/rocketmq#2358", "a_retry_goes_to_the_broker_that_failed"),
    "S12": ("apache/rocketmq#8990", "a_broker_hangs"),
    "S13": ("apache/rocketmq#2732", "a_queue_goes_away_and_comes_back"),
    "S14": ("apache/rocketmq#1470", "a_lite_pull_consumer_dies"),
    "S16": ("apache/rocketmq#7870", "a_new_group_is_counted_twice"),
    "S17": ("apache/rocketmq#4807", "name_servers_disagree"),
    "S18": ("apache/rocketmq#1095", "a_member_is_cut_off_from_one_broker"),
    "S19": ("apache/rocketmq#2149", "queues_move_for_nothing"),
    "S20": ("apache/rocketmq#1945", "ten_topics_tilt"),
    "S21": ("apache/rocketmq#3465", "a_broker_turns_read_only"),
    "S22": ("apache/rocketmq#2443", "rooms_without_members"),
    "S23": ("apache/rocketmq-client-go#1056", "a_topic_gets_more_queues"),
    "S24": ("apache/rocketmq#3138", "passes_come_late"),
    "S25": ("apache/rocketmq#2763", "routes_wait_for_offsets"),
    "S27": ("apache/rocketmq#1547", "three_containers_have_one_client_id"),
    "S28": ("apache/rocketmq#92", "members_subscribe_different_tags"),
    "S29": ("apache/rocketmq#2708", "an_offset_is_asked_for_in_vain"),
    "S30": ("apache/rocketmq#10176", "an_offset_cannot_be_learned"),
    "S31": ("apache/rocketmq#4215", "readers_are_ahead_of_a_slave"),
    "S32": ("apache/rocketmq#7740", "a_broadcasting_member_asks_beyond_the_log"),
    "S34": ("apache/rocketmq#7182", "a_retry_doubles_at_a_restart"),
    "S35": ("apache/rocketmq#1918", "a_member_is_without_network_for_two_minutes"),
    "S36": ("alibaba/RocketMQ#322", "a_member_dies"),
}


@pytest.mark.parametrize("number", COVERED)
def test_an_issue_of_the_list_has_a_scenario_that_names_it(number) -> None:
    issue, name = COVERED[number]
    assert load(name).issue == issue
    assert name in [found.name for found in in_folder(LIBRARY)]


LEFT_OUT = (  # of the same list, and known bugs of controllers: no scenario, and the page says why
    *("apache/rocketmq-client-go#1085", "apache/rocketmq#9830", "apache/rocketmq#11146"),
    *("apache/rocketmq-client-cpp#293", "apache/rocketmq#8912", "apache/rocketmq#8933"),
    *("apache/rocketmq#4175", "apache/rocketmq#9777", "apache/rocketmq#10578"),
)


@pytest.mark.parametrize("issue", LEFT_OUT)
def test_the_page_says_why_an_issue_has_no_scenario(issue) -> None:
    assert f"[{issue}](https://github.com/" in (ROOT / "docs" / "scenarios.md").read_text()
    assert issue not in [load(found.name).issue for found in in_folder(LIBRARY)]
