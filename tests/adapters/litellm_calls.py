"""Calls of litellm against a scripted provider, and what comes of them."""

import json
import warnings

import pytest

from adapters.litellm import LitellmAdapter
from adapters.litellm_library import begin_loading
from router.contract.relay import Endpoint, OutgoingRequest
from router.contract.secret import Secret
from router.contract.target import Timeouts
from router.contract.words import Dialect
from tests.tools.exchanges import RecordingSink
from tests.tools.running import two_targets
from tests.tools.values import ask, make_target


@pytest.fixture(scope="session", autouse=True)
def load_litellm():
    """Import it once, for all tests here. What it warns of while it loads is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin_loading().result(110)


class Basket(RecordingSink):
    """A sink that shows headers by name, and frames as what is in them."""

    def start(self, status, headers):
        super().start(status, dict(headers))

    @property
    def frames(self):
        return [json.loads(line[6:]) for line in self.body.decode().split("\n\n") if line and line != "data: [DONE]"]


def begin(
    upstream,
    *,
    key="key-of-the-target",
    base_url=None,
    model="openai/some-model",
    timeouts=None,
    headers=None,
    options=None,
    extra=(),
    **fields,
):
    endpoint = Endpoint(model, upstream.base_url if base_url is None else base_url, Secret(key) if key else None, headers=extra)
    view = ask(headers=headers, **fields)
    body = json.dumps({**view.body, "model": model}).encode()
    target = make_target(timeouts=timeouts or Timeouts(30, 60, 60))
    basket = Basket()
    under_way = LitellmAdapter(endpoint, LitellmAdapter.Settings(**(options or {})), None).open(
        OutgoingRequest(view, target, Dialect.CHAT, body, 10), basket
    )
    return basket, under_way


async def fetch(upstream, **more):
    return await begin(upstream, **more)[0].finished()


def piece(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


STARTED = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": []}
MESSAGE_EVENTS = [
    {"type": "message_start", "message": {**STARTED, "usage": {"input_tokens": 9, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ab"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "ls", "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]


def as_events(events):
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def through(upstream, model: str, **more: str) -> str:
    """A config whose fast tier is this model of litellm's."""
    root = upstream.base_url.removesuffix("/v1")
    config = two_targets(root, root, **more).replace("openai_http", "litellm")
    return config.replace("fast-model", model).replace("deep-model", "openai/deep-model")


def answer_of(*blocks, stop="end_turn"):
    """An answer of Claude's in one piece."""
    return {**STARTED, "content": list(blocks), "stop_reason": stop, "usage": {"input_tokens": 9, "output_tokens": 3}}
