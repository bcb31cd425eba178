"""Bits: permissions, the flags of messages and of pulls."""

from __future__ import annotations

import pytest

from rocketmq_emulator.protocol import flags
from tests.support.golden_data import cases

LINES = ["4.9", "5.3"]
COMPRESSION = {"LZ4": flags.LZ4, "ZSTD": flags.ZSTD, "ZLIB": flags.ZLIB}


@pytest.mark.parametrize("line", LINES)
def test_permissions_read_as_upstream_prints_them(line: str) -> None:
    for case in cases("ids.jsonl", "perm", line):
        value, want = case["in"]["perm"], case["out"]
        assert flags.perm_text(value) == want["text"]
        assert flags.is_readable(value) == want["readable"]
        assert flags.is_writeable(value) == want["writeable"]


@pytest.mark.parametrize("line", LINES)
def test_the_transaction_type_is_a_field_of_two_bits(line: str) -> None:
    for case in cases("message.jsonl", "sys_flag", line):
        flag, want = case["in"]["flag"], case["out"]
        assert flags.transaction_type(flag) == want["transaction"]
        assert flags.without_compressed(flag) == want["clear_compressed"]


def test_a_flag_without_a_compression_type_means_zlib() -> None:
    for case in cases("message.jsonl", "sys_flag", "5.3"):
        kind = flags.compression_type(case["in"]["flag"])
        want = case["out"]["compression"]
        if isinstance(want, str):
            assert kind == COMPRESSION[want]
        else:
            assert kind not in COMPRESSION.values()


@pytest.mark.parametrize("line", LINES)
def test_a_pull_s_flag_is_built_as_upstream_builds_it(line: str) -> None:
    for case in cases("message.jsonl", "pull_flag", line):
        flag, want = flags.pull_flag(**case["in"]), case["out"]
        assert flag == want["flag"]
        assert bool(flag & flags.COMMIT_OFFSET) == want["has_commit"]
        assert bool(flag & flags.SUSPEND) == want["has_suspend"]
        assert bool(flag & flags.SUBSCRIPTION) == want["has_subscription"]
