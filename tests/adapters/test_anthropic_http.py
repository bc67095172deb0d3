"""Where Messages go, and how a key and a login differ. The rest is in tests/contract."""

import pytest

from adapters.anthropic_http import AnthropicHttpAdapter
from router.contract.relay import AdapterSettings, Endpoint, ExtraField, OutgoingRequest, RouteRequest
from router.contract.secret import Secret
from router.contract.target import Timeouts
from router.contract.words import Dialect, Operation, Vendor
from tests.adapters.wires import Wire
from tests.tools.values import make_target, make_view


def send(base_url="https://models.example/v1", key="k", headers=None, **more):
    wire = Wire()
    view = make_view({"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}, Dialect.MESSAGES, headers, **more)
    adapter = AnthropicHttpAdapter(Endpoint("m", base_url, Secret(key) if key else None), AdapterSettings(), wire)
    adapter.open(OutgoingRequest(view, make_target(), Dialect.MESSAGES, b"{}", 1), None)
    return wire.sent


@pytest.mark.parametrize("base_url", ["https://models.example", "https://models.example/v1", "https://models.example/v1/"])
def test_an_address_is_right_with_the_version_and_without(base_url):
    assert send(base_url).url == "https://models.example/v1/messages"


def test_counting_tokens_has_a_path_of_its_own():
    assert send(operation=Operation.COUNT_TOKENS).url == "https://models.example/v1/messages/count_tokens"


@pytest.mark.parametrize(
    ("key", "header"),
    [("sk-ant-api03-x", ("x-api-key", "sk-ant-api03-x")), ("sk-ant-oat01-x", ("authorization", "Bearer sk-ant-oat01-x"))],
)
def test_a_key_and_a_logins_token_go_in_their_own_headers(key, header):
    assert [sent for sent in send(key=key).headers if key in sent[1]] == [header]


def test_the_callers_version_and_beta_go_along_and_a_version_is_always_sent():
    assert dict(send().headers)["anthropic-version"] == "2023-06-01"
    headers = dict(send(headers={"anthropic-version": "2099-01-01", "anthropic-beta": "b", "x-other": "z"}).headers)
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2099-01-01", "b")
    assert "x-other" not in headers


def test_the_version_of_a_caller_of_another_dialect_says_nothing_of_what_a_bridge_wrote():
    wire = Wire()
    view = make_view({"messages": [{"role": "user", "content": "x"}]}, headers={"anthropic-version": "2026-10-21"})
    adapter = AnthropicHttpAdapter(Endpoint("m", "https://models.example"), AdapterSettings(), wire)

    adapter.open(OutgoingRequest(view, make_target(), Dialect.MESSAGES, b"{}", 1), None)

    assert dict(wire.sent.headers)["anthropic-version"] == "2023-06-01"


def test_a_key_that_each_caller_brings_is_never_prepared():
    wire = Wire()
    adapter = AnthropicHttpAdapter(Endpoint("m", "https://models.example", Secret("caller")), AdapterSettings(), wire)

    target = make_target(speaks=frozenset({Dialect.MESSAGES}), accepts_keys_of=frozenset({Vendor.ANTHROPIC}))

    for key, name in (("one", "x-api-key"), ("sk-ant-oat-two", "authorization")):
        view = make_view(
            {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9},
            Dialect.MESSAGES,
            {"authorization": f"Bearer {key}"},
        )
        adapter.open(OutgoingRequest(view, target, Dialect.MESSAGES, b"{}", 1), None)
        assert dict(wire.sent.headers)[name].endswith(key)

    (prepared,) = wire.prepared
    assert not {"authorization", "x-api-key"} & set(dict(prepared.headers))


@pytest.mark.parametrize("base_url", ["https://models.example", "https://models.example/v1"])
def test_the_models_of_an_endpoint_are_asked_for_with_its_key(base_url):
    request = AnthropicHttpAdapter.list_models(Endpoint("m", base_url, Secret("k")), Timeouts(1, 1, 1))

    assert (request.method, request.url) == ("GET", "https://models.example/v1/models?limit=1000")
    assert {("x-api-key", "k"), ("anthropic-version", "2023-06-01")} <= set(request.headers)


def test_a_connection_ahead_is_to_the_same_place():
    wire = Wire()
    AnthropicHttpAdapter(Endpoint("m", "https://models.example"), AdapterSettings(), wire).connect_ahead(make_target())

    assert [request.url for request in wire.ahead] == ["https://models.example/v1"]


def test_extra_headers_and_query_go_with_every_question():
    extra = {"headers": (ExtraField("x-org", "7"),), "query": (ExtraField("beta", "true"),)}
    endpoint = Endpoint("m", "https://models.example", Secret("k"), **extra)
    wire, view = Wire(), make_view({"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}, Dialect.MESSAGES)
    adapter = AnthropicHttpAdapter(endpoint, AdapterSettings(), wire)

    adapter.open(OutgoingRequest(view, make_target(), Dialect.MESSAGES, b"{}", 1), None)
    asked = [wire.sent, AnthropicHttpAdapter.list_models(endpoint, Timeouts(1, 1, 1))]

    assert [request.url for request in asked] == [
        "https://models.example/v1/messages?beta=true",
        "https://models.example/v1/models?limit=1000&beta=true",
    ]
    assert all(("x-org", "7") in request.headers for request in asked)


def test_another_route_has_the_targets_key_and_the_callers_version():
    wire = Wire()
    adapter = AnthropicHttpAdapter(Endpoint("m", "https://models.example", Secret("k-own")), AdapterSettings(), wire)
    callers = {"anthropic-version": "2099-01-01", "anthropic-beta": "files", "x-api-key": "mine"}

    adapter.open_route(make_target(), RouteRequest("GET", "/files?limit=1", (("accept", "a/b"),), b"", callers), None)

    sent = wire.sent
    assert (sent.method, sent.url, sent.waits_for_first_byte) == ("GET", "https://models.example/v1/files?limit=1", False)
    assert dict(sent.headers) == {
        "accept": "a/b",
        "anthropic-version": "2099-01-01",
        "anthropic-beta": "files",
        "x-api-key": "k-own",
    }
