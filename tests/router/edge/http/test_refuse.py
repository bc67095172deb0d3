"""One refusal, written for every transport."""

import itertools
import json

from router.contract.errors import BadRequest, InternalFault, TandemError, TiersBusy, Unavailable, UpstreamRefused, WrongMethod
from router.contract.words import Dialect
from router.dialects.refusals import refuse_to, write_refusal
from router.edge.control.app import refusal_response
from router.edge.http.refuse import refusal_bytes, reject, send_refusal
from router.telemetry import events

ERRORS = [
    BadRequest("wrong", param="model"),
    Unavailable("full", retry_after_seconds=3),
    TiersBusy("busy"),
    InternalFault("ours"),
    UpstreamRefused("spark", 422, b"its own words", "text/plain"),
    WrongMethod("PUT is not allowed", allowed="GET, HEAD"),
]


def of_bytes(error: TandemError, dialect: Dialect) -> tuple[int, dict, bytes]:
    head, _, body = refusal_bytes(error, dialect, "req_1").partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines), body


async def of_asgi(error: TandemError, dialect: Dialect) -> tuple[int, dict, bytes]:
    sent: list = []

    async def send(message) -> None:
        sent.append(message)

    await send_refusal(send, error, dialect, "req_1")
    start, body = sent
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body["body"]


def of_starlette(error: TandemError, dialect: Dialect) -> tuple[int, dict, bytes]:
    response = refusal_response(error, dialect, "req_1", closes=True)
    return response.status_code, dict(response.headers), response.body


class Sink:
    def start(self, status, headers) -> None:
        self.status, self.headers, self.body, self.has_ended = status, dict(headers), b"", False

    def write(self, data) -> None:
        self.body += data

    def end(self) -> None:
        self.has_ended = True


async def test_every_transport_carries_the_same_refusal(subtests):
    for error, dialect in itertools.product(ERRORS, Dialect):
        with subtests.test(error=error, dialect=dialect):
            sink = Sink()
            refuse_to(sink, error, dialect, "req_1")
            whole = write_refusal(error, dialect, "req_1")

            closing = [of_bytes(error, dialect), await of_asgi(error, dialect), of_starlette(error, dialect)]

            expected = (whole.status, dict(whole.headers), whole.body)
            assert (sink.status, sink.headers, sink.body, sink.has_ended) == (*expected, True)
            for status, headers, body in closing:
                headers.pop("date", None)  # over ASGI, the server adds it
                assert headers.pop("connection") == "close"
                assert (status, headers, body) == expected


def test_a_refusal_has_its_id_by_every_name_its_length_and_its_kind():
    status, headers, body = write_refusal(BadRequest("wrong", param="model"), Dialect.CHAT, "req_1")

    assert status == 400
    assert headers[:5] == (
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("x-tandem-request-id", "req_1"),
        ("x-request-id", "req_1"),
        ("request-id", "req_1"),
    )
    assert json.loads(body)["error"]["param"] == "model"


def test_a_passing_refusal_says_when_to_come_again():
    headers = dict(write_refusal(Unavailable("full", retry_after_seconds=2.5), Dialect.CHAT, "req_1").headers)

    assert (headers["retry-after"], headers["retry-after-ms"]) == ("3", "2500")


def test_a_targets_own_words_pass_unchanged_where_they_blame_the_request():
    status, headers, body = write_refusal(UpstreamRefused("spark", 422, b"mine", "text/plain"), Dialect.CHAT, "req_1")

    assert (status, body) == (422, b"mine")
    assert dict(headers)["content-type"] == "text/plain"
    assert dict(headers)["x-tandem-target"] == "spark"


def test_a_targets_words_do_not_pass_where_it_is_at_fault_itself():
    refusal = write_refusal(UpstreamRefused("spark", 503, b"a secret", "text/plain"), Dialect.CHAT, "req_1")

    assert b"secret" not in refusal.body
    assert "x-tandem-target" not in dict(refusal.headers)


def test_a_rejection_is_logged_by_status_and_code(monkeypatch):
    logged = []
    monkeypatch.setattr(events, "request_rejected", lambda **fields: logged.append(fields))

    reject(BadRequest("wrong"), Dialect.CHAT, "req_1")

    assert logged == [{"status": 400, "code": "invalid_request", "message": "wrong"}]


def test_an_answer_that_need_not_close_does_not():
    assert "connection" not in refusal_response(BadRequest("x"), Dialect.CHAT, "req_1", closes=False).headers
