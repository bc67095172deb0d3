"""Which key opens a target for one request."""

import pytest

from router.contract.errors import CallerKey
from router.contract.relay import Endpoint, OutgoingRequest
from router.contract.secret import Secret
from router.contract.words import Dialect
from tests.tools.values import ask, make_target


def request_with(**headers: str) -> OutgoingRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return OutgoingRequest(ask(headers=named), make_target(), Dialect.CHAT, b"{}", prompt_tokens=1)


def test_a_target_without_a_key_is_sent_none_whatever_the_caller_brings():
    assert Endpoint("m").key_for(request_with(authorization="Bearer theirs")) == ""


def test_a_targets_own_key_is_sent_and_the_callers_is_not(monkeypatch):
    monkeypatch.setenv("SPARK_KEY", "sk-ours")

    key = Endpoint("m", api_key=Secret("env:SPARK_KEY")).key_for(request_with(authorization="Bearer theirs"))

    assert key == "sk-ours"


def test_a_target_that_takes_the_callers_key_is_sent_just_that():
    endpoint = Endpoint("m", api_key=Secret("caller"))

    assert endpoint.key_for(request_with(authorization="Bearer theirs")) == "theirs"
    assert endpoint.key_for(request_with(x_api_key="theirs")) == "theirs"


def test_a_caller_without_a_key_is_told_how_to_send_one():
    words = 'target "spark" needs your own API key.*x-tandem-upstream-key: KEY or.*authorization: Bearer KEY or x-api-key: KEY'
    with pytest.raises(CallerKey, match=words):
        Endpoint("m", api_key=Secret("caller")).key_for(request_with())


@pytest.mark.parametrize(("url", "path"), [
    ("http://127.0.0.1:8080/v1", "/health"),
    ("http://[::1]:8080/v1/", "/health"),
    ("http://192.168.1.7:11434/v1", "/health"),
    ("http://vllm:8000/v1", "/health"),
    ("http://gpu.local:8000/v1", "/health"),
    ("http://localhost:4000", "/models"),  # a gateway's own /health may ask every model
    ("https://api.openai.com/v1", ""),
    ("https://8.8.8.8/v1", ""),
    ("", ""),
])  # fmt: skip
def test_only_engines_nearby_have_a_route_to_be_asked_at(url, path):
    assert Endpoint("m", url).health_path == path
    assert Endpoint("m", url, Secret("caller")).health_path == ""
