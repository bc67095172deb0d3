"""Asking engines for what their lists do not say, against servers on loopback."""

import asyncio

import pytest

from router.cli.setup.ask_engine import ask_engine
from router.cli.setup.engines import Engine
from router.cli.setup.live import ask_models
from router.contract.relay import Endpoint
from router.contract.secret import Secret
from router.upstream.pool import Pool
from router.wiring import known_names
from tests.tools.model_server import ModelServer


def ask(server: ModelServer, kind: str = "") -> Engine:
    async def main() -> Engine:
        pool, adapter = Pool(), known_names().adapters["openai_http"]
        endpoint = Endpoint("m", server.base_url, Secret("sk-1"))
        try:
            reached = await ask_models(pool, adapter, endpoint, 5.0)
            return await ask_engine(pool, adapter, endpoint, reached, 5.0, kind)
        finally:
            await pool.close()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("facts", "pages", "engine"),
    [
        ({"owned_by": "llamacpp", "meta": {"n_ctx": 2048}}, {"/props": {"total_slots": 2}}, Engine("llamacpp", 2, {"m": 2048})),
        ({"owned_by": "vllm", "max_model_len": 4096}, {"/props": {"total_slots": 2}}, Engine("vllm", None, {"m": 4096})),
        (
            {"owned_by": "library"},
            {"/api/ps": {"models": [{"name": "m", "context_length": 4096}]}},
            Engine("ollama", None, {"m": 4096}),
        ),
        ({"owned_by": "library"}, {"/api/ps": {"models": []}}, Engine("ollama")),
        (
            {"owned_by": "organization_owner"},
            {"/api/v0/models": {"data": [{"id": "m", "loaded_context_length": 8192}]}},
            Engine("lmstudio", None, {"m": 8192}),
        ),
        ({"owned_by": "llamacpp"}, {"/other": {}}, Engine("llamacpp")),
    ],
)
def test_an_engine_is_asked_for_what_its_list_does_not_say(facts, pages, engine):
    with ModelServer(facts=facts, pages=pages) as server:
        assert ask(server) == engine

    assert {key for _, _, key in server.seen} == {"Bearer sk-1"}


def test_a_server_that_does_not_say_what_it_is_gets_no_other_question():
    with ModelServer(facts={"owned_by": "openai"}) as server:
        assert ask(server) == Engine()

    assert [path for _, path, _ in server.seen] == ["/v1/models"]


def test_a_server_that_does_not_say_what_it_is_may_be_taken_for_one():
    with ModelServer(pages={"/api/ps": {"models": [{"name": "m", "context_length": 4096}]}}) as server:
        assert ask(server, "ollama") == Engine("ollama", None, {"m": 4096})


def test_a_page_that_is_not_json_says_nothing():
    with ModelServer(facts={"owned_by": "llamacpp"}, body=None) as server:
        server.pages = {}
        server.body = b'{"data": [{"id": "m", "owned_by": "llamacpp"}]'  # cut short, so neither a list nor a page
        assert ask(server) == Engine()
