"""HTTP/1.1 as bytes and values: whole, in pieces, with extra bytes, too long, or not HTTP."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketmq_emulator.cluster.control.http_connection import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    HttpConnection,
    HttpResponse,
    Refused,
)

GET = b"GET /nodes?kinds=A,B&x=%20 HTTP/1.1\r\nHost: 127.0.0.1:9875\r\nX-Mine: yes\r\n\r\n"
POST = b"POST /nodes/a%2Db/kill HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n"
POST += b'{"a":1}'
CHUNKED = b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED += b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
FINE = HttpResponse.json({"fine": True})


def heads_and_bodies(data: bytes) -> list[tuple[str, dict]]:
    """The first line and the JSON of each answer."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if "content-length" in line)
        found.append((lines[0], json.loads(rest[:length])))
        data = rest[length:]
    return found


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_requests_survive_any_fragmentation(step) -> None:
    conversation, data, got, written = HttpConnection(), GET + POST + CHUNKED + GET, [], b""
    for start in range(0, len(data), step):
        conversation.feed(data[start : start + step])
        while (request := conversation.next_request()) is not None:
            got.append(request)
            written += conversation.answer(FINE)
    assert [(r.method, r.path, r.body) for r in got] == [
        ("GET", "/nodes", b""),
        ("POST", "/nodes/a-b/kill", b'{"a":1}'),
        ("POST", "/x", b"abcde"),
        ("GET", "/nodes", b""),
    ]
    assert got[0].query == {"kinds": "A,B", "x": " "}
    assert got[0].headers["x-mine"] == "yes"
    assert heads_and_bodies(written) == [("http/1.1 200 ok", {"fine": True})] * 4


def test_a_conversation_is_over_when_the_client_wants_no_more_of_it() -> None:
    conversation = HttpConnection()
    conversation.feed(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert conversation.next_request() is not None
    assert not conversation.is_over
    conversation.answer(FINE)
    assert conversation.is_over


def test_a_conversation_is_over_when_the_client_has_gone() -> None:
    conversation = HttpConnection()
    conversation.feed(b"")
    assert conversation.next_request() is None
    assert conversation.is_over


def test_an_upgrade_that_is_not_granted_changes_nothing() -> None:
    """Java's HttpClient asks for HTTP/2 in its first request."""
    upgrade = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    upgrade += b"Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n\r\n"
    conversation = HttpConnection()
    for _ in range(2):
        conversation.feed(upgrade)
        assert conversation.next_request() is not None
        assert conversation.answer(FINE).startswith(b"HTTP/1.1 200")


def test_a_client_that_waits_for_permission_to_send_its_body_gets_it() -> None:
    conversation = HttpConnection()
    head, body = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"), b'{"a":1}'
    conversation.feed(head.removesuffix(body))
    assert conversation.next_request() is None
    assert conversation.continue_response().startswith(b"HTTP/1.1 100")
    conversation.feed(body)
    request = conversation.next_request()
    assert request is not None
    assert request.body == body


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (b"\x00\x00\x01\x00not http", 400, "no HTTP/1.1"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"GET /" + b"a" * (HEAD_BYTES_MAX + 1), 431, "no HTTP/1.1"),
        (POST.replace(b"7", b"9999999") + b"x" * BODY_BYTES_MAX, 413, "at most 65536 bytes"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "gzip"),
    ],
    ids=["no http", "no host", "long head", "long body", "gzip"],
)
def test_what_cannot_be_read_is_refused_and_ends_the_conversation(data, status, text) -> None:
    conversation = HttpConnection()
    conversation.feed(data)
    with pytest.raises(Refused) as caught:
        conversation.next_request()
    (line, body) = heads_and_bodies(conversation.answer(HttpResponse.refusal(caught.value)))[0]
    assert line.startswith(f"http/1.1 {status}")
    assert text.lower() in body["error"].lower() or status == 501
    assert "\n" not in body["error"]
    assert conversation.is_over


def test_the_answer_to_head_has_no_body() -> None:
    conversation = HttpConnection()
    for _ in range(2):
        conversation.feed(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert conversation.next_request() is not None
        assert conversation.answer(FINE).endswith(b"\r\n\r\n")


def test_a_request_has_begun_with_its_first_byte() -> None:
    conversation = HttpConnection()
    assert not conversation.is_begun
    conversation.feed(GET[:3])
    assert conversation.next_request() is None
    assert conversation.is_begun
    conversation.feed(GET[3:])
    assert conversation.next_request() is not None
    conversation.answer(FINE)
    assert not conversation.is_begun


LINES = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /nodes/a/kill HTTP/1.1\r\n",
        b"HEAD / HTTP/1.1\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.0\r\n",
        b"Host: localhost\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b"\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"%zz?=&&",
        b"\x00\xff",
    ]
)


@example([b"OPTIONS * HTTP/1.0\r\n\r\nOPTIONS * HTTP/1.0\r\n"], False)  # after the last request
@given(st.lists(LINES | st.binary(max_size=20), max_size=12), st.booleans())
def test_whatever_comes_is_a_request_or_refused_and_can_be_answered(pieces, ends) -> None:
    conversation = HttpConnection()
    for piece in [*pieces, *([b""] if ends else [])]:
        conversation.feed(piece)
        try:
            while conversation.next_request() is not None:
                conversation.answer(FINE)
        except Refused as refused:
            written = conversation.answer(HttpResponse.refusal(refused))
            assert written.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501"))  # any 4xx, or 501
        if conversation.is_over:
            return
        conversation.continue_response()
    assert not ends, "the client has closed its end, so the conversation must be over"
