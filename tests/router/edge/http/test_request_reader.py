"""Create calls from bytes, wherever they are cut, without a socket."""

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import BadRequest, HeadersTooLarge
from router.contract.words import Dialect
from router.edge.http.head import RequestHead
from router.edge.http.request_reader import HAND_OVER, RequestReader
from router.edge.routes import ROUTES
from tests.tools.edge import LIMITS
from tests.tools.http import chat, request_bytes

CREATE = request_bytes("/v1/chat/completions", chat())
BODY = json.dumps(chat()).encode()


def events(*pieces: bytes) -> list:
    """What a reader makes of bytes, each request served at once. A head is shown as its path."""
    reader, found = RequestReader(), []
    for piece in pieces:
        reader.receive_data(piece)
        while (event := reader.next_event(LIMITS)) is not None:
            found.append(event.path if isinstance(event, RequestHead) else event)
            if event is HAND_OVER:
                return [*found, reader.take_buffer()]
            if isinstance(event, bytes):
                reader.start_next_cycle()
    return found


@pytest.mark.parametrize("cut", range(len(CREATE) + 1))
def test_a_request_that_is_cut_anywhere_is_read_the_same(cut):
    assert events(CREATE[:cut], CREATE[cut:]) == ["/v1/chat/completions", BODY]


def test_a_request_that_comes_byte_by_byte_is_read_the_same():
    assert events(*(bytes([byte]) for byte in CREATE)) == ["/v1/chat/completions", BODY]


@given(cuts=some.lists(some.integers(0, 3 * len(CREATE)), max_size=8))
def test_pipelined_requests_are_read_in_order_however_they_are_sliced(cuts):
    stream = CREATE + request_bytes("/v1/messages", b"") + request_bytes("/responses", b"{}")
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    pieces = [stream[start:end] for start, end in itertools.pairwise(places)]

    assert events(*pieces) == ["/v1/chat/completions", BODY, "/v1/messages", b"", "/responses", b"{}"]


def test_the_next_request_waits_until_the_first_is_served():
    reader = RequestReader()
    reader.receive_data(CREATE + CREATE)
    first = [reader.next_event(LIMITS), reader.next_event(LIMITS)]

    while_served = reader.next_event(LIMITS)
    waiting = reader.buffered_bytes
    reader.start_next_cycle()
    second = reader.next_event(LIMITS)

    assert first[1] == BODY
    assert (while_served, waiting) == (None, len(CREATE))
    assert isinstance(second, RequestHead)


def test_bytes_that_come_while_a_request_is_served_are_not_lost():
    reader = RequestReader()
    reader.receive_data(CREATE)
    assert [reader.next_event(LIMITS) is not None for _ in range(2)] == [True, True]

    reader.receive_data(CREATE[:40])
    reader.receive_data(CREATE[40:])
    reader.start_next_cycle()

    assert isinstance(reader.next_event(LIMITS), RequestHead)
    assert reader.next_event(LIMITS) == BODY


def test_no_bytes_are_no_event():
    assert RequestReader().next_event(LIMITS) is None


@pytest.mark.parametrize("path", list(ROUTES))
@pytest.mark.parametrize("query", ["", "?beta=true"])
def test_every_create_route_is_read_here(path, query):
    assert events(request_bytes(path + query, b"{}")) == [path, b"{}"]


@pytest.mark.parametrize(
    "data",
    [
        request_bytes("/v1/models"),
        request_bytes("/v1/chat/completions", method="GET"),
        request_bytes("/v1/chat/completions/", b"{}"),
        request_bytes("/v1/chat/completions#x", b"{}"),
        request_bytes("/tandem/explain", b"{}"),
        request_bytes("/v1/chat/completions", b"2\r\n{}\r\n0\r\n\r\n", {"transfer-encoding": "chunked"}),
        request_bytes("/v1/chat/completions", b"{}").replace(b"HTTP/1.1", b"HTTP/0.9"),
        b"post /v1/chat/completions HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01" + bytes(40),
    ],
    ids=["get", "get a create route", "slash", "fragment", "explain", "chunked", "old", "lower case", "tls"],
)
def test_what_is_not_a_plain_create_call_is_handed_over_with_every_byte(data):
    assert events(data) == [HAND_OVER, data]


def test_a_connection_may_be_handed_over_after_a_request_was_served():
    models = request_bytes("/v1/models")

    assert events(CREATE + models) == ["/v1/chat/completions", BODY, HAND_OVER, models]


@pytest.mark.parametrize("cut", range(1, 20))
def test_it_is_handed_over_as_soon_as_no_more_bytes_could_make_it_a_create_call(cut):
    data = b"POST /v1/models HTTP/1.1\r\n"
    could_be = any(f"POST {path} ".encode().startswith(data[:cut]) for path in ROUTES)

    assert events(data[:cut]) == ([] if could_be else [HAND_OVER, data[:cut]])


def test_a_head_over_the_limit_is_refused_whole_or_not():
    small = replace(LIMITS, max_header_bytes=100)
    for data in (request_bytes("/v1/messages", b"{}", {"x-a": "b" * 80}), b"POST /v1/messages HTTP/1.1\r\nx-a: " + b"b" * 80):
        reader = RequestReader()
        reader.receive_data(data)

        with pytest.raises(HeadersTooLarge):
            reader.next_event(small)
        assert reader.dialect is Dialect.MESSAGES


def test_a_head_may_be_as_large_as_the_limit_and_not_a_byte_larger():
    size = CREATE.index(b"\r\n\r\n") + 4
    exact, over = RequestReader(), RequestReader()
    exact.receive_data(CREATE)
    over.receive_data(CREATE)

    assert exact.next_event(replace(LIMITS, max_header_bytes=size)) is not None
    with pytest.raises(HeadersTooLarge):
        over.next_event(replace(LIMITS, max_header_bytes=size - 1))


def test_the_limit_of_a_new_plan_counts_for_the_next_head():
    reader = RequestReader()
    reader.receive_data(CREATE)

    with pytest.raises(HeadersTooLarge):
        reader.next_event(replace(LIMITS, max_header_bytes=10))


@pytest.mark.parametrize(
    "data",
    [
        CREATE.replace(b"\r\n", b"\n"),
        CREATE.replace(b"\r\n\r\n", b"\n\r\n"),
        CREATE.replace(b"host:", b"host :"),
        CREATE.replace(b"127.0.0.1", b"a\x00b"),
        CREATE.replace(b"content-length: ", b"content-length: +"),
        CREATE.replace(b"content-length: ", b"content-length: 1\r\ncontent-length: "),
    ],
    ids=["line feeds", "last line feed", "space before colon", "nul", "sign", "two lengths"],
)
def test_bad_framing_is_refused(data):
    reader = RequestReader()
    reader.receive_data(data)

    with pytest.raises(BadRequest):
        reader.next_event(LIMITS)


@pytest.mark.parametrize(("path", "dialect"), [(path, route.dialect) for path, route in ROUTES.items()])
def test_a_refusal_is_in_the_dialect_of_the_path_before_the_head_is_whole(path, dialect):
    reader = RequestReader()
    reader.receive_data(f"POST {path}?x=1 HTTP/1.1\r\nhost".encode())

    assert reader.next_event(LIMITS) is None
    assert reader.dialect is dialect


def test_only_a_body_that_is_still_to_come_is_asked_for():
    whole = request_bytes("/v1/messages", b"{}", {"expect": "100-continue"})
    reader, other = RequestReader(), RequestReader()
    reader.receive_data(whole)
    other.receive_data(whole[:-2])
    assert reader.next_event(LIMITS) is not None
    assert other.next_event(LIMITS) is not None

    assert (reader.expects_continue, other.expects_continue) == (False, True)


def test_how_much_of_a_body_has_come_is_known():
    reader = RequestReader()
    reader.receive_data(CREATE[:-10])
    assert reader.next_event(LIMITS) is not None

    before = reader.body_bytes
    reader.receive_data(CREATE[-10:-5])

    assert (before, reader.body_bytes) == (len(BODY) - 10, len(BODY) - 5)
