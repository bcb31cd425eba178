"""docs/protocol.md is generated, and each role answers only calls that its release knows."""

from __future__ import annotations

import pytest

from docs.generate.protocol import PAGE, PROFILES, _answered, page
from rocketmq_emulator.protocol import catalog


def test_the_page_that_is_checked_in_is_the_one_that_would_be_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make page`"


@pytest.mark.parametrize("release", PROFILES, ids=str)
def test_no_role_answers_a_call_that_its_release_does_not_know(release) -> None:
    for role, codes in _answered(release).items():
        for code in codes:
            rpc = catalog.by_code(code, role)
            assert rpc is not None, f"{role} answers {code}, but no client sends it to a {role}"
            assert rpc.exists_in(release), f"{role} of {release} answers {rpc.name}"


@pytest.mark.parametrize("release", PROFILES, ids=str)
def test_a_name_server_answers_everything_it_is_asked(release) -> None:
    asked = {
        rpc.code
        for rpc in catalog.CALLS
        if "nameserver" in rpc.answered_by and rpc.exists_in(release)
    }
    assert _answered(release)["nameserver"] == asked


def test_every_call_has_a_row_and_its_fields() -> None:
    text = page()
    for rpc in catalog.CALLS:
        assert f"| {rpc.code} | {rpc.name} |" in text
        assert f"### {rpc.code} {rpc.name}\n" in text
    assert "- request: `topic` string, `acceptStandardJsonOnly` boolean?\n" in text
    assert "- reply body: `TopicRouteData`\n" in text
    assert "| 209 | POLLING_FULL | UPDATE_AND_CREATE_ACL_CONFIG_FAILED |" in text
