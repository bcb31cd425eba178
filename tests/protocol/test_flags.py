"""Bits: permissions, the flags of messages and of pulls."""

from __future__ import annotations

import pytest
from golden_data import cases

from protocol import perm, pull_flags, sysflag

LINES = ["4.9", "5.3"]
COMPRESSION = {"LZ4": sysflag.LZ4, "ZSTD": sysflag.ZSTD, "ZLIB": sysflag.ZLIB}


@pytest.mark.parametrize("line", LINES)
def test_permissions_read_as_upstream_prints_them(line: str) -> None:
    for case in cases("ids.jsonl", "perm", line):
        value, want = case["in"]["perm"], case["out"]
        assert perm.perm_text(value) == want["text"]
        assert perm.is_readable(value) == want["readable"]
        assert perm.is_writeable(value) == want["writeable"]


@pytest.mark.parametrize("line", LINES)
def test_the_transaction_type_is_a_field_of_two_bits(line: str) -> None:
    for case in cases("message.jsonl", "sys_flag", line):
        flag, want = case["in"]["flag"], case["out"]
        assert sysflag.transaction_type(flag) == want["transaction"]
        assert sysflag.without_compressed(flag) == want["clear_compressed"]


def test_a_flag_without_a_compression_type_means_zlib() -> None:
    for case in cases("message.jsonl", "sys_flag", "5.3"):
        kind = sysflag.compression_type(case["in"]["flag"])
        want = case["out"]["compression"]
        if isinstance(want, str):
            assert kind == COMPRESSION[want]
        else:
            assert kind not in COMPRESSION.values()


@pytest.mark.parametrize("line", LINES)
def test_a_pull_s_flag_is_built_as_upstream_builds_it(line: str) -> None:
    for case in cases("message.jsonl", "pull_flag", line):
        flag, want = pull_flags.pull_flag(**case["in"]), case["out"]
        assert flag == want["flag"]
        assert bool(flag & pull_flags.COMMIT_OFFSET) == want["has_commit"]
        assert bool(flag & pull_flags.SUSPEND) == want["has_suspend"]
        assert bool(flag & pull_flags.SUBSCRIPTION) == want["has_subscription"]
