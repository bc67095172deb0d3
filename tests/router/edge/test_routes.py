"""The table of routes, and what the headers of a request must be like."""

import itertools

import pytest

from router.contract.errors import BadRequest, Forbidden, WrongMediaType
from router.contract.words import Dialect, Operation
from router.edge.routes import (
    ENCODINGS,
    ROUTES,
    Route,
    check_body_headers,
    check_origin,
    dialect_of_path,
    headers_too_large,
    new_request_id,
    read_length,
    read_passed,
    write_passed,
)
from tests.tools.edge import LIMITS


def test_every_create_call_has_its_route_with_and_without_the_version(subtests):
    for prefix, (path, route) in itertools.product(
        ["", "/v1"],
        [
            ("/chat/completions", Route(Dialect.CHAT)),
            ("/completions", Route(Dialect.COMPLETIONS)),
            ("/responses", Route(Dialect.RESPONSES)),
            ("/responses/compact", Route(Dialect.RESPONSES, Operation.COMPACT)),
            ("/responses/input_tokens", Route(Dialect.RESPONSES, Operation.COUNT_TOKENS)),
            ("/messages", Route(Dialect.MESSAGES)),
            ("/messages/count_tokens", Route(Dialect.MESSAGES, Operation.COUNT_TOKENS)),
        ],
    ):
        with subtests.test(prefix=prefix, path=path, route=route):
            assert ROUTES[prefix + path] == route


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/messages", Dialect.MESSAGES),
        ("/v1/messages/batches", Dialect.MESSAGES),
        ("/messages/", Dialect.MESSAGES),
        ("/v1/responses", Dialect.RESPONSES),
        ("/v1/nowhere", Dialect.CHAT),
        ("", Dialect.CHAT),
    ],
)
def test_a_refusal_is_in_the_dialect_that_the_path_suggests(path, dialect):
    assert dialect_of_path(path) is dialect


@pytest.mark.parametrize("path", ["/v1/files", "/v1/models/nobody", "/v1/responses/resp_1", "/v1/messages/batches", ""])
def test_a_caller_with_anthropics_sdk_is_refused_in_its_dialect_wherever_a_route_has_none(path):
    assert dialect_of_path(path, {"anthropic-version": "2023-06-01"}) is Dialect.MESSAGES
    assert dialect_of_path("/v1/responses", {"anthropic-version": "2023-06-01"}) is Dialect.RESPONSES


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost:4000"},
        {"host": "LOCALHOST"},
        {"host": "[::1]:4000"},
        {"host": "127.0.0.1"},
        {"host": "127.9.9.9:1"},
        {"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80"},
        {"host": "localhost", "origin": "https://localhost"},
        {"host": "localhost", "sec-fetch-site": "same-origin"},
    ],
)
def test_this_machine_is_let_in(headers):
    check_origin(headers, 1)


def test_everybody_else_is_refused_and_again_when_they_come_again(subtests):
    for headers, hosts, error in [
        ({}, 0, BadRequest),
        ({"host": "localhost"}, 2, BadRequest),
        ({"host": ""}, 1, BadRequest),
        ({"host": "a/admin?x="}, 1, BadRequest),
        ({"host": "evil.example"}, 1, Forbidden),
        ({"host": "127.0.0.1.evil.example"}, 1, Forbidden),
        ({"host": "localhost:4000:1"}, 1, Forbidden),
        ({"host": "localhost", "origin": "http://evil.example"}, 1, Forbidden),
        ({"host": "localhost", "origin": "http://localhost:3000"}, 1, Forbidden),
        ({"host": "localhost", "origin": "null"}, 1, Forbidden),
        ({"host": "localhost", "sec-fetch-site": "cross-site"}, 1, Forbidden),
        ({"host": "localhost", "sec-fetch-site": "same-site"}, 1, Forbidden),
    ]:
        with subtests.test(headers=headers, hosts=hosts, error=error):
            for _ in range(2):
                with pytest.raises(error):
                    check_origin(headers, hosts)


def test_a_repeated_origin_is_refused_though_the_last_one_is_good():
    headers = {"host": "localhost", "origin": "http://localhost"}

    check_origin(headers, 1, 1)
    with pytest.raises(BadRequest, match="Origin header is repeated"):
        check_origin(headers, 1, 2)


def test_too_many_headers_are_told_from_too_large_ones():
    many = headers_too_large(LIMITS.max_headers + 1, LIMITS)
    large = headers_too_large(LIMITS.max_headers, LIMITS)

    assert str(many) == "21 headers; the limit is 20"
    assert str(large) == "the headers are over the limit of 4096 bytes"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/json"},
        {"content-type": "application/json; charset=UTF-8"},
        {"content-type": 'application/json; charset="utf-8"'},
        {"content-type": "application/vnd.api+json"},
        {"content-encoding": "identity"},
        {"content-encoding": ""},
    ],
)
def test_plain_json_is_taken(headers):
    check_body_headers(headers, 0)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": ""},
        {"content-type": "application/json; charset=utf-16"},
        {"content-encoding": "gzip"},
        {"content-encoding": "br"},
    ],
)
def test_what_is_not_plain_json_is_refused_by_its_headers(headers):
    with pytest.raises(WrongMediaType):
        check_body_headers(headers, 0)


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "GZip"])
def test_a_compressed_body_is_taken_where_encodings_are_named(encoding):
    check_body_headers({"content-encoding": encoding}, 0, ENCODINGS)


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd, gzip", "gzip, zstd", "zstd, zstd", "gzip;q=1", "zstd "])
def test_any_other_encoding_is_refused_with_those_that_are_taken(encoding):
    with pytest.raises(WrongMediaType, match="Send the body as zstd or gzip, or uncompressed"):
        check_body_headers({"content-encoding": encoding}, 0, ENCODINGS)


def test_a_length_must_be_one_plain_number():
    check_body_headers({"content-length": "10"}, 1)
    for value, count in (("", 1), ("+1", 1), ("1,1", 1), ("0x1", 1), ("1", 2), ("1" * 20, 1)):
        with pytest.raises(BadRequest):
            check_body_headers({"content-length": value}, count)


@pytest.mark.parametrize(
    ("value", "length"),
    [("0", 0), ("12", 12), ("007", 7), ("", None), ("-1", None), ("²", None), ("1" * 20, None), ("1\n", None), ("1_0", None)],
)
def test_a_length_is_plain_digits(value, length):
    assert read_length(value) == length


def test_request_ids_differ_and_sort_by_time(monkeypatch):
    ids = [new_request_id() for _ in range(1_000)]
    monkeypatch.setattr("time.time", lambda: 9_999_999_999.0)
    later = new_request_id()

    assert len(set(ids)) == 1_000
    assert all(len(found) == len("req_") + 27 for found in ids)
    assert max(ids) < later


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/embeddings", "embeddings"),
        ("/files/file-1/content", "files"),
        ("/v1/batches/", "batches"),
        ("/v1/embedding", None),
        ("/v1/v1/embeddings", None),
        ("/v1/chat/embeddings", None),
        ("/v1/chat/completions", None),
    ],
)
def test_a_route_that_is_not_decided_is_known_by_the_first_part_of_its_path(path, route):
    assert read_passed(path) == route


def test_only_named_headers_of_the_caller_go_along_with_what_is_passed_on():
    headers = {"accept": "a/b", "authorization": "Bearer k", "x-api-key": "k", "host": "h", "cookie": "c", "range": "bytes=0-1"}

    request = write_passed("GET", b"/v1/files/a%20b/content", b"x=1&y=%2F", headers, b"")

    assert (request.method, request.path) == ("GET", "/files/a%20b/content?x=1&y=%2F")
    assert request.headers == (("accept", "a/b"), ("range", "bytes=0-1"))


@pytest.mark.parametrize("path", [b"/v1/files/..", b"/files/./x", b"/files/%2E%2e%2fx", b"/files/x%5c..%5cy", b"/files/\xc3"])
def test_a_path_that_leads_out_of_its_route_is_refused(path):
    with pytest.raises(BadRequest):
        write_passed("GET", path, b"", {}, b"")
