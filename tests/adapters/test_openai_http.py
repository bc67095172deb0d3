"""Where Chat, Responses and Completions go, and what of the caller's goes along. The rest is in tests/contract."""

import pytest

from adapters.openai_http import OpenAiHttpAdapter
from router.contract.relay import AdapterSettings, Endpoint, ExtraField, OutgoingRequest, RouteRequest, Tls
from router.contract.secret import Secret
from router.contract.target import Timeouts
from router.contract.words import Dialect
from tests.adapters.wires import Wire
from tests.tools.values import ask, make_target


def send(dialect=Dialect.CHAT, base_url="https://models.example/v1", headers=None, tls=None, **fields):
    wire, view = Wire(), ask(headers=headers, **fields)
    adapter = OpenAiHttpAdapter(Endpoint("m", base_url, Secret("k"), tls), AdapterSettings(), wire)
    adapter.open(OutgoingRequest(view, make_target(), dialect, b"{}", 1), None)
    return wire.sent


@pytest.mark.parametrize(
    ("dialect", "path"),
    [(Dialect.CHAT, "/chat/completions"), (Dialect.RESPONSES, "/responses"), (Dialect.COMPLETIONS, "/completions")],
)
@pytest.mark.parametrize("base_url", ["https://models.example/v1", "https://models.example/v1/"])
def test_each_dialect_has_its_path(dialect, path, base_url):
    assert send(dialect, base_url).url == f"https://models.example/v1{path}"


def test_the_headers_that_providers_ask_for_go_along_and_no_others():
    sent = send(headers={"openai-beta": "x", "x-client-request-id": "y", "x-other": "z"})

    assert dict(sent.headers) == {
        "content-type": "application/json",
        "accept": "application/json",
        "openai-beta": "x",
        "x-client-request-id": "y",
        "authorization": "Bearer k",
    }


def test_only_a_streamed_answer_is_waited_for_by_its_first_byte():
    assert (send(stream=True).waits_for_first_byte, dict(send(stream=True).headers)["accept"]) == (True, "text/event-stream")
    assert not send().waits_for_first_byte


def test_a_targets_own_tls_goes_to_the_client():
    assert send(tls=Tls(ca_file="x")).tls == Tls(ca_file="x")


def make_adapter(wire, key="k"):
    return OpenAiHttpAdapter(Endpoint("m", "https://models.example/v1", Secret(key)), AdapterSettings(), wire)


def test_what_does_not_change_is_prepared_once_for_each_dialect_and_way_of_answering():
    wire = Wire()
    adapter = make_adapter(wire)

    for _ in range(3):
        for view in (ask(), ask(stream=True)):
            for dialect in (Dialect.CHAT, Dialect.RESPONSES):
                adapter.open(OutgoingRequest(view, make_target(), dialect, b"{}", 1), None)
                assert wire.sent.url.endswith("/responses" if dialect is Dialect.RESPONSES else "/chat/completions")
                assert wire.sent.waits_for_first_byte is view.is_streaming

    assert len(wire.prepared) == 4


def test_a_key_that_each_caller_brings_is_never_prepared():
    wire = Wire()
    adapter = make_adapter(wire, "caller")

    for key in ("one", "two"):
        view = ask(headers={"authorization": f"Bearer {key}"})
        adapter.open(OutgoingRequest(view, make_target(), Dialect.CHAT, b"{}", 1), None)
        assert dict(wire.sent.headers)["authorization"] == f"Bearer {key}"

    (prepared,) = wire.prepared
    assert "authorization" not in dict(prepared.headers)


def test_a_request_prints_without_its_key():
    assert "Bearer" not in f"{send()!r} {send()}"


def test_the_models_of_an_endpoint_are_asked_for_with_its_key():
    request = OpenAiHttpAdapter.list_models(Endpoint("m", "https://models.example/v1/", Secret("k")), Timeouts(1, 1, 1))

    assert (request.method, request.url) == ("GET", "https://models.example/v1/models")
    assert ("authorization", "Bearer k") in request.headers
    assert OpenAiHttpAdapter.list_models(Endpoint("m", "https://h/v1"), Timeouts(1, 1, 1)).headers == (
        ("accept", "application/json"),
    )


def make_socket_adapter(wire, key="k"):
    return OpenAiHttpAdapter(
        Endpoint("m", "https://models.example/v1", Secret(key), over_websocket=True), AdapterSettings(), wire
    )


def test_over_a_websocket_the_client_is_told_the_session():
    wire, view = Wire(), ask(stream=True)
    sessions = []
    wire.prepare = lambda request: sessions.append(request.over_websocket) or Session(sessions)

    adapter = make_socket_adapter(wire)
    adapter.open(OutgoingRequest(view, make_target(), Dialect.RESPONSES, b"{}", 1, session="s-1"), None)
    adapter.open(OutgoingRequest(view, make_target(), Dialect.COMPLETIONS, b"{}", 1, session="s-1"), None)

    assert sessions == [True, "s-1", False, "s-1"]


class Session:
    def __init__(self, sessions):
        self.sessions = sessions

    def open(self, body, sink, headers=(), session=""):
        self.sessions.append(session)


def test_a_connection_ahead_is_to_the_same_place_with_the_same_key():
    wire = Wire()
    make_adapter(wire).connect_ahead(make_target(speaks=frozenset({Dialect.RESPONSES})))

    (request,) = wire.ahead
    assert request.url == "https://models.example/v1/responses"
    assert dict(request.headers)["authorization"] == "Bearer k"
    assert not request.over_websocket


def test_a_socket_is_opened_ahead_with_the_targets_own_key_and_never_without_the_callers():
    target, own, callers = make_target(speaks=frozenset({Dialect.RESPONSES})), Wire(), Wire()
    make_socket_adapter(own).connect_ahead(target)
    make_socket_adapter(callers, "caller").connect_ahead(target)

    assert [request.over_websocket for request in own.ahead] == [True]
    assert callers.ahead == []


EXTRA = {"headers": (ExtraField("x-org", "7"),), "query": (ExtraField("api-version", "2024-10-21"),)}


def test_extra_headers_and_query_go_with_every_question():
    endpoint = Endpoint("m", "https://models.example/v1", Secret("k"), **EXTRA)
    wire = Wire()

    OpenAiHttpAdapter(endpoint, AdapterSettings(), wire).connect_ahead(make_target())
    asked = [*wire.ahead, OpenAiHttpAdapter.list_models(endpoint, Timeouts(1, 1, 1))]

    assert [request.url.partition("/v1/")[2] for request in asked] == [
        "chat/completions?api-version=2024-10-21",
        "models?api-version=2024-10-21",
    ]
    assert all(("x-org", "7") in request.headers for request in asked)


@pytest.mark.parametrize(("key", "sent_key"), [("k-own", "k-own"), ("caller", "mine")])
def test_another_route_has_the_key_of_a_create_call(key, sent_key):
    wire = Wire()
    adapter = OpenAiHttpAdapter(Endpoint("m", "https://models.example/v1/", Secret(key)), AdapterSettings(), wire)
    request = RouteRequest("POST", "/embeddings?x=1", (("accept", "a/b"),), b"{}", {"authorization": "Bearer mine"})

    adapter.open_route(make_target(), request, None)

    sent = wire.sent
    assert (sent.method, sent.url, sent.body) == ("POST", "https://models.example/v1/embeddings?x=1", b"{}")
    assert dict(sent.headers) == {"accept": "a/b", "authorization": f"Bearer {sent_key}"}
    assert "mine" not in repr(request)


def test_another_route_has_the_headers_and_the_query_that_the_config_adds():
    endpoint, wire = Endpoint("m", "https://models.example/v1", Secret("k"), **EXTRA), Wire()

    OpenAiHttpAdapter(endpoint, AdapterSettings(), wire).open_route(
        make_target(), RouteRequest("GET", "/files?limit=1", (), b"", {}), None
    )

    assert wire.sent.url == "https://models.example/v1/files?limit=1&api-version=2024-10-21"
    assert ("x-org", "7") in wire.sent.headers
