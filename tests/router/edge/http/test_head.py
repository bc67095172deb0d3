"""Heads from bytes and from ASGI scopes say the same."""

import pytest
from hypothesis import given
from msgspec import structs

from router.contract.errors import BadRequest
from router.edge.http.head import HeadReader, RequestHead, parse_head, read_scope
from tests.tools.edge import random_heads

RAW = (
    b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: localhost\r\nOrigin: a\r\norigin: b\r\nX-A: one\r\nx-a: two\r\n"
    b"content-type: application/json\r\ncontent-length: 2\r\n\r\n"
)
SCOPE = {
    "method": "POST",
    "path": "/v1/messages",
    "raw_path": b"/v1/messages",
    "query_string": b"beta=true",
    "headers": [
        (b"host", b"localhost"),
        (b"origin", b"a"),
        (b"origin", b"b"),
        (b"x-a", b"one"),
        (b"x-a", b"two"),
        (b"content-type", b"application/json"),
        (b"content-length", b"2"),
    ],
}


def test_both_say_the_same_of_one_request():
    from_bytes, from_scope = parse_head(RAW), read_scope(SCOPE)

    for name in ("method", "path", "headers", "count", "size", "hosts", "origins", "lengths", "length", "route"):
        assert getattr(from_bytes, name) == getattr(from_scope, name), name
    assert from_bytes.size == len(RAW)
    assert (from_bytes.headers["x-a"], from_bytes.origins) == ("two", 2)


def test_a_list_that_comes_in_several_lines_is_joined():
    lines = [(b"host", b"a"), (b"Anthropic-Beta", b"one, two"), (b"x-a", b"1"), (b"anthropic-beta", b"three"), (b"x-a", b"2")]
    raw = b"GET / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % line for line in lines) + b"\r\n"
    scope = {"method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers": lines}

    for head in (parse_head(raw), read_scope(scope)):
        assert (head.headers["anthropic-beta"], head.headers["x-a"], head.count) == ("one, two,three", "2", 5)


def test_a_scope_without_a_query_has_the_size_of_its_bytes():
    raw = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    scope = {"method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers": [(b"host", b"a")]}

    assert read_scope(scope).size == len(raw)


@pytest.mark.parametrize(
    ("version", "extra", "keeps"), [("1.1", b"", True), ("1.1", b"connection: close\r\n", False), ("1.0", b"", False)]
)
def test_whether_the_connection_is_kept_is_read(version, extra, keeps):
    head = parse_head(b"POST / HTTP/" + version.encode() + b"\r\nhost: a\r\n" + extra + b"\r\n")

    assert (head.version, head.keeps_alive) == (version, keeps)


@pytest.mark.parametrize(("value", "length"), [(b"0", 0), (b"17", 17), (b"0017", 17)])
def test_a_plain_length_is_read(value, length):
    assert parse_head(b"POST / HTTP/1.1\r\ncontent-length: " + value + b"\r\n\r\n").length == length


@pytest.mark.parametrize("line", [b"no colon", b"content-length: x", b"x : y", b"content-length: 1\r\ncontent-length: 2"])
def test_what_is_not_http_is_refused(line):
    with pytest.raises(BadRequest):
        parse_head(b"POST / HTTP/1.1\r\n" + line + b"\r\n\r\n")


@pytest.mark.parametrize("target", [b"/v1/messages#x", b"/v1/messages?a=b#x"])
def test_a_target_with_a_fragment_is_refused(target):
    with pytest.raises(BadRequest, match="must be a path"):
        parse_head(b"POST " + target + b" HTTP/1.1\r\nhost: a\r\n\r\n")


def said(read, raw: bytes) -> dict | str:
    """All that a head says, or the words with which it is refused."""
    try:
        return {**structs.asdict(read(raw)), "is_checked": None}
    except BadRequest as error:
        return str(error)


@given(heads=random_heads())
def test_a_head_says_the_same_whatever_came_before_it_on_its_connection(heads):
    reader = HeadReader()

    assert [said(reader.read, raw) for raw in heads] == [said(parse_head, raw) for raw in heads]


def head_of(length: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join((b"POST /v1/messages HTTP/1.1", b"host: a", b"Content-Length: " + length, *lines, b"", b""))


def read_behind(first: bytes, second: bytes) -> RequestHead:
    """The second head as it is read behind the first, which was checked. Only if it is remembered, it is checked as well."""
    reader = HeadReader()
    reader.read(first).is_checked = True
    return reader.read(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (head_of(b"7"), head_of(b"7")),
        (head_of(b"7"), head_of(b"12345")),
        (head_of(b"123", b"x-a: 1", b"expect: 100-continue"), head_of(b"9", b"x-a: 1", b"expect: 100-continue")),
    ],
)
def test_a_head_that_differs_in_its_length_alone_is_remembered(first, second):
    head = read_behind(first, second)

    assert head.is_checked
    assert structs.asdict(head) == {**structs.asdict(parse_head(second)), "is_checked": True}


@pytest.mark.parametrize(("first", "second"), [
    (head_of(b"7"), head_of(b"7").replace(b"host: a", b"host: b")),
    (head_of(b"7"), head_of(b"7").replace(b"/v1/messages", b"/v1/responses")),
    (head_of(b"7"), head_of(b"7").replace(b"1.1", b"1.0")),
    (head_of(b"7"), head_of(b"7", b"expect: 100-continue")),
    (head_of(b"7"), head_of(b"7", b"transfer-encoding: chunked").replace(b"Content-Length: 7\r\n", b"")),
    (head_of(b"7"), head_of(b"0")),
    (head_of(b"7"), head_of(b"07")),
    (head_of(b"0"), head_of(b"0")),
    (head_of(b"7 "), head_of(b"8 ")),
    (head_of(b"7", b"x-a: " + b"y" * 9_000), head_of(b"7", b"x-a: " + b"y" * 9_000)),
    (b"POST / HTTP/1.1\r\nhost: a\r\n\r\n", b"POST / HTTP/1.1\r\nhost: a\r\n\r\n"),
], ids=["host", "path", "version", "more", "chunked", "to 0", "zeros", "0", "space", "large", "without"])  # fmt: skip
def test_any_other_head_is_read_again(first, second):
    assert not read_behind(first, second).is_checked


@pytest.mark.parametrize("second", [head_of(b""), head_of(b"7 7"), head_of(b"7,7"), head_of(b"-7"), head_of(b"1" * 21)])
@pytest.mark.parametrize("more", [(), (b"x-a: 1",)])
def test_a_length_that_is_none_is_refused_behind_a_good_one(second, more):
    with pytest.raises(BadRequest):
        read_behind(head_of(b"7", *more), second)


def test_a_second_length_is_refused_behind_a_good_one():
    for second in (head_of(b"7", b"content-length: 7"), head_of(b"7\r\nContent-Length: 7"), head_of(b"7\r\nContent-Length: 8")):
        with pytest.raises(BadRequest):
            read_behind(head_of(b"7"), second)


def test_headers_that_somebody_holds_keep_their_own_length():
    reader = HeadReader()

    held = [reader.read(head_of(length)).headers for length in (b"7", b"12", b"345")]

    assert [headers["content-length"] for headers in held] == ["7", "12", "345"]
