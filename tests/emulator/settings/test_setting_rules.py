"""Every numeric setting has a range, and a value outside it is refused in one sentence."""

from __future__ import annotations

import subprocess
import sys
from types import UnionType
from typing import Any, get_args

import msgspec
import pytest

import rocketmq_emulator.client  # noqa: F401  # defines the configs of clients
from rocketmq_emulator.client import PushConsumerConfig
from rocketmq_emulator.client.settings.config import ClientConfig, ProducerConfig
from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig, NetConfig
from rocketmq_emulator.settings.releases import KNOWN_RELEASES, Release, known_release
from rocketmq_emulator.settings.setting_rules import CheckedConfig, SettingRefused, convert_fields
from rocketmq_emulator.text.values import (
    check_connect_address,
    check_listen_address,
    split_address,
)


def kinds_below(kind: type[CheckedConfig]) -> list[type[CheckedConfig]]:
    return [kind, *(found for below in kind.__subclasses__() for found in kinds_below(below))]


CONFIGS = kinds_below(CheckedConfig)[1:]


def is_number(kind: Any) -> bool:
    return kind is int or (isinstance(kind, UnionType) and int in get_args(kind))


def ranges_of(config: type[CheckedConfig]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in config.__mro__:
        if (rules := kind.__dict__.get("setting_rules")) is not None:
            found |= rules.ranges
    return found


def given_with(config: type[CheckedConfig], **given: Any) -> dict[str, Any]:
    return {"group": "g", **given} if "group" in config.__struct_fields__ else given


def test_the_configs_of_every_role_are_looked_at() -> None:
    wanted = {NetConfig, NameServerConfig, BrokerConfig, ClientConfig, ProducerConfig}
    assert wanted | {PushConsumerConfig} <= set(CONFIGS)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_number_has_a_range_and_every_range_a_number(config: type[CheckedConfig]) -> None:
    numbers = {f.name for f in msgspec.structs.fields(config) if is_number(f.type)}
    assert numbers == ranges_of(config).keys(), "the ranges are in setting_rules of the struct"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_number_outside_its_range_is_refused_by_name(config: type[CheckedConfig]) -> None:
    for name, range_ in ranges_of(config).items():
        for value in (range_.least - 1, range_.most + 1):
            with pytest.raises(SettingRefused) as refused:
                config(**given_with(config, **{name: value}))
            assert name in str(refused.value)
            assert str(value) in str(refused.value)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_no_duration_and_no_count_may_be_below_zero_but_those_that_say_so(
    config: type[CheckedConfig],
) -> None:
    below = {name for name, range_ in ranges_of(config).items() if range_.least < 0}
    allowed = {"send_timeout_ms_per_attempt", "reconsume_times_max", "election_priority"}
    assert below <= allowed


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_relation_names_settings_that_exist(config: type[CheckedConfig]) -> None:
    for names, _, sentence in config.setting_rules.relations:
        assert set(names) <= set(config.__struct_fields__)
        assert sentence.format_map(dict.fromkeys(names, ""))


def test_a_value_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(SettingRefused, match=r"^perm \(brokerPermission\) is a whole number"):
        BrokerConfig(perm="x")  # type: ignore[arg-type]
    with pytest.raises(SettingRefused, match=r"^net.idle_ms_max .* is a whole number"):
        BrokerConfig(net=NetConfig(idle_ms_max="x"))  # type: ignore[arg-type]


def test_limits_of_the_network_are_refused_with_their_prefix_and_nothing_else() -> None:
    wrong = {"net": {"outboxes_bytes_max": 1}}
    with pytest.raises(SettingRefused) as refused:
        convert_fields(BrokerConfig, wrong, "a broker")
    assert str(refused.value) == (
        "net.outboxes_bytes_max = 1 must be at least net.outbox_bytes_max = 4194304"
    )


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("9.9.9", "5.3.3"), ("3.2.6", "4.0.0"), ("4.9.9", "4.9.8"), ("5.1.5", "5.1.4")],
)
def test_a_release_that_is_not_known_is_refused_with_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"{text} is not known here, .* the nearest is {nearest}"):
        BrokerConfig(release=text)


def test_the_known_releases_are_in_order_and_each_is_one() -> None:
    found = [known_release(text) for text in KNOWN_RELEASES]
    assert found == sorted(set(found))
    assert [str(release) for release in found] == list(KNOWN_RELEASES)
    assert Release(4, 9, 7) in found


@pytest.mark.parametrize("text", ["", "9876", "host:", "host:port", "1.2.3.4:70000", "a:\u0661"])
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="looks like"):
        split_address(text)


def test_one_can_listen_where_one_cannot_connect() -> None:
    for address in (":9876", "0.0.0.0:0"):
        check_listen_address(address)
    for address in (":9876", "127.0.0.1:0"):
        with pytest.raises(ValueError, match="looks like"):
            check_connect_address(address)


TWO_THREADS = """
from __future__ import annotations
import threading
from rocketmq_emulator.settings.setting_rules import CheckedConfig, convert_fields

made, others = [], []

def make() -> None:
    made.append(convert_fields(Outer, {"name": "a", "inner": {"size": 1}}, "Outer"))

def type_of_size() -> type:
    if not others:  # this thread reads the annotations: another one needs them now
        others.append(threading.Thread(target=make))
        others[0].start()
        others[0].join(0.2)
    return int

class Inner(CheckedConfig, frozen=True, kw_only=True):
    size: type_of_size()

class Outer(CheckedConfig, frozen=True, kw_only=True):
    inner: Inner
    name: str = ""

make()
others[0].join()
assert made == [Outer(name="a", inner=Inner(size=1))] * 2, made
"""


def test_two_threads_can_make_their_first_settings_at_once() -> None:
    # In a process of its own: without the lock it crashes.
    ended = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr.decode()) == (0, "")
