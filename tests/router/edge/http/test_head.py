"""Heads from bytes and from ASGI scopes say the same."""

import pytest

from router.contract.errors import BadRequest
from router.edge.http.head import RequestHead, ScopeHead, is_plain_number

RAW = (
    b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: localhost\r\nX-A: one\r\nx-a: two\r\n"
    b"content-type: application/json\r\ncontent-length: 2\r\n\r\n"
)
SCOPE = {
    "method": "POST",
    "path": "/v1/messages",
    "raw_path": b"/v1/messages",
    "query_string": b"beta=true",
    "headers": [
        (b"host", b"localhost"),
        (b"x-a", b"one"),
        (b"x-a", b"two"),
        (b"content-type", b"application/json"),
        (b"content-length", b"2"),
    ],
}


def test_both_say_the_same_of_one_request():
    from_bytes, from_scope = RequestHead(RAW), ScopeHead(SCOPE)

    for name in ("method", "path", "headers", "count", "size", "hosts", "lengths"):
        assert getattr(from_bytes, name) == getattr(from_scope, name), name
    assert from_bytes.size == len(RAW)
    assert from_bytes.headers["x-a"] == "two"


def test_a_scope_without_a_query_has_the_size_of_its_bytes():
    raw = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    scope = {"method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers": [(b"host", b"a")]}

    assert ScopeHead(scope).size == len(raw)


@pytest.mark.parametrize(
    ("version", "extra", "keeps"),
    [("1.1", b"", True), ("1.1", b"connection: close\r\n", False), ("1.0", b"", False)],
)
def test_whether_the_connection_is_kept_is_read(version, extra, keeps):
    head = RequestHead(b"POST / HTTP/" + version.encode() + b"\r\nhost: a\r\n" + extra + b"\r\n")

    assert (head.version, head.keeps_alive) == (version, keeps)


@pytest.mark.parametrize(("value", "length"), [(b"0", 0), (b"17", 17), (b"0017", 17)])
def test_a_plain_length_is_read(value, length):
    assert RequestHead(b"POST / HTTP/1.1\r\ncontent-length: " + value + b"\r\n\r\n").length == length


@pytest.mark.parametrize("line", [b"no colon", b"content-length: x", b"x : y", b"content-length: 1\r\ncontent-length: 2"])
def test_what_is_not_http_is_refused(line):
    with pytest.raises(BadRequest):
        RequestHead(b"POST / HTTP/1.1\r\n" + line + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("value", "is_plain"), [("0", True), ("12", True), ("", False), ("-1", False), ("²", False), ("1" * 20, False)]
)
def test_a_number_is_plain_digits(value, is_plain):
    assert is_plain_number(value) is is_plain
