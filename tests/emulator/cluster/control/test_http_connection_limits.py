"""Only programs on this machine may use the control address."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.control.http_connection import Refused, check_sender

OWN = {"host": "127.0.0.1:9875"}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:9875", "127.8.8.8", "localhost:1", "LOCALHOST.", "[::1]:80", "[::1]"],
)
def test_names_of_loopback_are_welcome(host) -> None:
    check_sender({"host": host})


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example:9875",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "localhost.evil.example",
        "::1",
    ],
)
def test_other_names_are_refused_whatever_they_resolve_to(host) -> None:
    with pytest.raises(Refused, match="answers to 127"):
        check_sender({"host": host})


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:3000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_pages_of_other_origins_are_refused(headers) -> None:
    with pytest.raises(Refused, match="pages of another origin") as caught:
        check_sender({**OWN, **headers})
    assert caught.value.status == 403


def test_our_own_origin_and_an_address_typed_into_a_browser_are_welcome() -> None:
    check_sender({**OWN, "origin": "http://127.0.0.1:9875", "sec-fetch-site": "same-origin"})
    check_sender({**OWN, "sec-fetch-site": "none"})
