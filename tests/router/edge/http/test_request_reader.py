"""Create calls from bytes, wherever they are cut, without a socket."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec import structs
from msgspec.structs import replace

from router.contract.errors import BadRequest, HeadersTooLarge
from router.contract.limits import Limits
from router.contract.words import Dialect
from router.edge.http.head import RequestHead, parse_head
from router.edge.http.request_reader import _CREATE_STARTS, _STARTS, HAND_OVER, RequestReader
from router.edge.routes import ROUTES
from tests.tools.edge import LIMITS, random_heads
from tests.tools.http import chat, request_bytes

CREATE = request_bytes("/v1/chat/completions", chat())
BODY = json.dumps(chat()).encode()


def next_event(reader: RequestReader, limits: Limits = LIMITS):
    """A head, or the body of the last one, or the hand-over; None until more bytes come."""
    return reader.read_head(limits) if reader.head is None else reader.read_body()


def events(*pieces: bytes) -> list:
    """What a reader makes of bytes. A head is shown as its path."""
    reader, found = RequestReader(), []
    for piece in pieces:
        reader.receive_data(piece)
        while (event := next_event(reader)) is not None:
            found.append(event.path if isinstance(event, RequestHead) else event)
            if event is HAND_OVER:
                return [*found, reader.take_buffer()]
    return found


def test_a_request_that_is_cut_anywhere_is_read_the_same(subtests):
    for cut in range(len(CREATE) + 1):
        with subtests.test(cut=cut):
            assert events(CREATE[:cut], CREATE[cut:]) == ["/v1/chat/completions", BODY]


def test_a_request_that_comes_byte_by_byte_is_read_the_same():
    assert events(*(bytes([byte]) for byte in CREATE)) == ["/v1/chat/completions", BODY]


@given(cuts=some.lists(some.integers(0, 3 * len(CREATE)), max_size=8))
def test_pipelined_requests_are_read_in_order_however_they_are_sliced(cuts):
    stream = CREATE + request_bytes("/v1/messages", b"") + request_bytes("/responses", b"{}")
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    pieces = [stream[start:end] for start, end in itertools.pairwise(places)]

    assert events(*pieces) == ["/v1/chat/completions", BODY, "/v1/messages", b"", "/responses", b"{}"]


def naive(stream: bytes) -> list:
    """What each request of a stream says, every head parsed by itself, up to the first that is refused or handed over."""
    found: list = []
    while b"\r\n\r\n" in stream:
        if not stream.startswith(_CREATE_STARTS):
            return [*found, HAND_OVER]  # whatever it is, somebody else reads it
        end = stream.index(b"\r\n\r\n") + 4
        try:
            head = parse_head(stream[:end])
        except BadRequest:
            return [*found, "refused"]
        if not head.is_plain:
            return [*found, HAND_OVER]
        if len(stream) < end + head.length:
            return found
        found += [structs.asdict(head), stream[end : end + head.length]]
        stream = stream[end + head.length :]
    # Bytes that no request of ours begins with are somebody else's as soon as that is clear.
    is_ours = stream.startswith(_STARTS) or any(start.startswith(stream) for start in _STARTS)
    return found if is_ours else [*found, HAND_OVER]


def read_all(pieces: list[bytes]) -> list:
    """The same, as a reader finds it."""
    reader, found = RequestReader(), []
    for piece in pieces:
        reader.receive_data(piece)
        try:
            while reader.head is not None or (reader.buffered_bytes and reader.read_head(LIMITS)):
                if reader.head is None:
                    return [*found, HAND_OVER]
                said = structs.asdict(reader.head)
                if (body := reader.read_body()) is None:
                    break
                found += [said, body]
        except BadRequest:
            return [*found, "refused"]
    return found


def test_stray_bytes_after_a_body_are_handed_over_before_a_head_is_whole():
    assert events(CREATE + b"xxxx") == ["/v1/chat/completions", BODY, HAND_OVER, b"xxxx"]


@given(heads=random_heads(), data=some.data())
def test_requests_on_one_connection_say_what_each_would_say_alone(heads, data):
    """However they are pipelined and sliced, and whatever is remembered of the heads before."""
    stream = b"".join(head + b"x" * min(length_in(head), 500) for head in heads)
    cuts = data.draw(some.lists(some.integers(1, len(stream)), max_size=8))
    places = sorted({0, *cuts, len(stream)})

    assert read_all([stream[start:end] for start, end in itertools.pairwise(places)]) == naive(stream)


def length_in(head: bytes) -> int:
    try:
        return parse_head(head).length
    except BadRequest:
        return 0


@pytest.fixture
def reader():
    return RequestReader()


def test_the_next_request_waits_until_it_is_asked_for(reader):
    reader.receive_data(CREATE + CREATE)
    first = [next_event(reader), next_event(reader)]

    waiting = reader.buffered_bytes
    second = next_event(reader)

    assert first[1] == BODY
    assert waiting == len(CREATE)
    assert isinstance(second, RequestHead)


def test_bytes_that_come_while_a_request_is_served_are_not_lost(reader):
    reader.receive_data(CREATE)
    assert [next_event(reader) is not None for _ in range(2)] == [True, True]

    reader.receive_data(CREATE[:40])
    reader.receive_data(CREATE[40:])

    assert isinstance(next_event(reader), RequestHead)
    assert next_event(reader) == BODY


def test_no_bytes_are_no_event():
    assert next_event(RequestReader()) is None


def test_every_create_route_is_read_here(subtests):
    for path, query in itertools.product(list(ROUTES), ["", "?beta=true"]):
        with subtests.test(path=path, query=query):
            assert events(request_bytes(path + query, b"{}")) == [path, b"{}"]


@pytest.mark.parametrize("data", [
    request_bytes("/v1/models"),
    request_bytes("/v1/chat/completions", method="GET"),
    request_bytes("/v1/chat/completions/", b"{}"),
    request_bytes("/v1/chat/completions#x", b"{}"),
    request_bytes("/tandem/explain", b"{}"),
    request_bytes("/v1/chat/completions", b"2\r\n{}\r\n0\r\n\r\n", {"transfer-encoding": "chunked"}),
    request_bytes("/v1/chat/completions", b"{}").replace(b"HTTP/1.1", b"HTTP/0.9"),
    b"post /v1/chat/completions HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01" + bytes(40),
], ids=["get", "get a create route", "slash", "fragment", "explain", "chunked", "old", "lower case", "tls"])  # fmt: skip
def test_what_is_not_a_plain_create_call_is_handed_over_with_every_byte(data):
    assert events(data) == [HAND_OVER, data]


def test_a_connection_may_be_handed_over_after_a_request_was_served():
    models = request_bytes("/v1/models")

    assert events(CREATE + models) == ["/v1/chat/completions", BODY, HAND_OVER, models]


def test_it_is_handed_over_as_soon_as_no_more_bytes_could_make_it_a_create_call(subtests):
    for cut in range(1, 20):
        with subtests.test(cut=cut):
            data = b"POST /v1/models HTTP/1.1\r\n"
            could_be = any(f"POST {path} ".encode().startswith(data[:cut]) for path in ROUTES)

            assert events(data[:cut]) == ([] if could_be else [HAND_OVER, data[:cut]])


def test_a_head_over_the_limit_is_refused_whole_or_not():
    small = replace(LIMITS, max_header_bytes=100)
    for data in (request_bytes("/v1/messages", b"{}", {"x-a": "b" * 80}), b"POST /v1/messages HTTP/1.1\r\nx-a: " + b"b" * 80):
        reader = RequestReader()
        reader.receive_data(data)

        with pytest.raises(HeadersTooLarge):
            next_event(reader, small)
        assert reader.dialect is Dialect.MESSAGES


def test_a_head_may_be_as_large_as_the_limit_and_not_a_byte_larger():
    size = CREATE.index(b"\r\n\r\n") + 4
    exact, over = RequestReader(), RequestReader()
    exact.receive_data(CREATE)
    over.receive_data(CREATE)

    assert next_event(exact, replace(LIMITS, max_header_bytes=size)) is not None
    with pytest.raises(HeadersTooLarge):
        next_event(over, replace(LIMITS, max_header_bytes=size - 1))


def test_the_limit_of_a_new_plan_counts_for_the_next_head(reader):
    reader.receive_data(CREATE)

    with pytest.raises(HeadersTooLarge):
        next_event(reader, replace(LIMITS, max_header_bytes=10))


@pytest.mark.parametrize("data", [
    CREATE.replace(b"\r\n", b"\n"),
    CREATE.replace(b"\r\n\r\n", b"\n\r\n"),
    CREATE.replace(b"host:", b"host :"),
    CREATE.replace(b"127.0.0.1", b"a\x00b"),
    CREATE.replace(b"content-length: ", b"content-length: +"),
    CREATE.replace(b"content-length: ", b"content-length: 1\r\ncontent-length: "),
], ids=["line feeds", "last line feed", "space before colon", "nul", "sign", "two lengths"])  # fmt: skip
def test_bad_framing_is_refused(reader, data):
    reader.receive_data(data)

    with pytest.raises(BadRequest):
        next_event(reader)


def test_a_refusal_is_in_the_dialect_of_the_path_before_the_head_is_whole(subtests):
    for path, dialect in [(path, route.dialect) for path, route in ROUTES.items()]:
        with subtests.test(path=path, dialect=dialect):
            reader = RequestReader()
            reader.receive_data(f"POST {path}?x=1 HTTP/1.1\r\nhost".encode())

            assert next_event(reader) is None
            assert reader.dialect is dialect


def test_only_a_body_that_is_still_to_come_is_asked_for():
    whole = request_bytes("/v1/messages", b"{}", {"expect": "100-continue"})
    reader, other = RequestReader(), RequestReader()
    reader.receive_data(whole)
    other.receive_data(whole[:-2])
    assert next_event(reader) is not None
    assert next_event(other) is not None

    assert (reader.expects_continue, other.expects_continue) == (False, True)


def test_how_much_of_a_body_has_come_is_known(reader):
    reader.receive_data(CREATE[:-10])
    assert next_event(reader) is not None

    before = reader.body_bytes
    reader.receive_data(CREATE[-10:-5])

    assert (before, reader.body_bytes) == (len(BODY) - 10, len(BODY) - 5)
