"""Sending a batch: what is asked, what counts as taken, and what may be tried again."""

import socket

import pytest

from router.telemetry.collector import Collector, NotTaken
from tests.tools.trace_receiver import Receiver


def post(url: str, headers=(), timeout: float = 30.0) -> int:
    return Collector(url, headers).post(b"{}", timeout)


def test_a_batch_is_posted_below_the_endpoint_as_json_with_the_headers_of_the_config():
    with Receiver() as receiver:
        rejected = post(f"{receiver.url}/otlp/", (("x-key", "value"),))

    ((path, headers),) = receiver.seen
    assert (rejected, path, receiver.taken) == (0, "/otlp/v1/traces", [b"{}"])
    assert (headers["content-type"], headers["x-key"]) == ("application/json", "value")


@pytest.mark.parametrize(
    ("status", "may_pass"), [(429, True), (502, True), (503, True), (504, True), (400, False), (401, False), (500, False)]
)
def test_only_answers_that_otlp_lists_are_tried_again(status, may_pass):
    with Receiver(status, headers={"retry-after": "7"}) as receiver, pytest.raises(NotTaken) as refused:
        post(receiver.url)

    assert (str(refused.value), refused.value.may_pass) == (f"the collector answered {status}", may_pass)
    assert refused.value.wait_seconds == 7


@pytest.mark.parametrize(("written", "seconds"), [("", 0.0), ("soon", 0.0), ("-5", 0.0), ("²", 0.0), ("86400", 30.0)])
def test_a_wish_to_be_left_alone_is_bounded(written, seconds):
    with Receiver(503, headers={"retry-after": written}) as receiver, pytest.raises(NotTaken) as refused:
        post(receiver.url)

    assert refused.value.wait_seconds == seconds


def test_a_redirect_is_not_followed():
    with (
        Receiver() as other,
        Receiver(307, headers={"location": f"{other.url}/v1/traces"}) as receiver,
        pytest.raises(NotTaken, match="answered 307") as refused,
    ):
        post(receiver.url)

    assert (refused.value.may_pass, other.seen) == (False, [])


def test_no_proxy_of_the_environment_is_used(monkeypatch):
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("no_proxy", "")
        post(receiver.url)

    assert (len(receiver.seen), len(proxy.seen)) == (1, 0)


def test_an_endpoint_where_nobody_listens_may_be_tried_again():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(NotTaken, match="cannot be reached: ConnectionRefusedError") as refused:
            post(f"http://127.0.0.1:{unused.getsockname()[1]}")

    assert refused.value.may_pass


@pytest.mark.parametrize("endpoint", ["http://[2001:db8::abcd]", "https://[2001:db8::abcd]", "http://[::1]"])
def test_an_address_without_a_port_is_tried_at_the_usual_one(endpoint, monkeypatch):
    tried = []

    def connect(address, *_):
        tried.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(NotTaken, match="ConnectionRefusedError"):
        post(endpoint)

    assert tried == [(endpoint.split("[")[1][:-1], 443 if endpoint.startswith("https") else 80)]


def test_an_endpoint_that_never_answers_is_left_after_the_timeout():
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(NotTaken, match="cannot be reached: TimeoutError") as refused,
    ):
        post(f"http://127.0.0.1:{mute.getsockname()[1]}", timeout=0.05)

    assert refused.value.may_pass


@pytest.mark.parametrize(
    ("answer", "rejected"),
    [
        (b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}', 3),
        (b'{"partialSuccess":{}}', 0),
        (b"{}", 0),
        (b"", 0),
        (b"[]", 0),
        (b'{"partialSuccess":null}', 0),
        (b'{"partialSuccess":{"rejectedSpans":"-1"}}', 0),
        (b"<html>", 0),
    ],
)
def test_spans_that_a_collector_rejected_are_counted_from_its_answer(answer, rejected):
    with Receiver(body=answer) as receiver:
        assert post(receiver.url) == rejected
