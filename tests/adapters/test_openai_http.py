"""Where Chat, Responses and Completions go, and what of the caller's goes along. The rest is in tests/contract."""

import pytest

from adapters.openai_http import OpenAiHttpAdapter
from router.contract.relay import AdapterSettings, Endpoint, OutgoingRequest, Tls
from router.contract.secret import Secret
from router.contract.words import Dialect
from tests.tools.values import ask, make_target


class Wire:
    """An `Upstream` that keeps what it is asked to send."""

    def open(self, request, sink):
        self.sent = request


def send(dialect=Dialect.CHAT, base_url="https://models.example/v1", headers=None, tls=None, **fields):
    wire, view = Wire(), ask(headers=headers, **fields)
    adapter = OpenAiHttpAdapter(Endpoint("m", base_url, Secret("k"), tls), AdapterSettings(), wire)
    adapter.open(OutgoingRequest(view, make_target(), dialect, b"{}", 1), None)
    return wire.sent


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        (Dialect.CHAT, "/chat/completions"),
        (Dialect.RESPONSES, "/responses"),
        (Dialect.COMPLETIONS, "/completions"),
    ],
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
