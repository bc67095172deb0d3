"""Asking providers and targets, against servers on loopback that behave in every way that matters."""

import asyncio
import socket

import pytest

from router.cli.setup.engines import Engine, ListedModel, Reached
from router.cli.setup.live import ask_target, gather, judge_model, look_at
from router.contract.relay import Endpoint
from router.contract.secret import Secret
from router.upstream.address import read_address
from router.upstream.pool import Pool
from router.wiring.build import build_house, known_names
from tests.router.cli.model_server import ModelServer
from tests.tools.configs import load_text
from tests.tools.running import two_targets

ADAPTERS = known_names().adapters


def ask(base_url: str, *, key: str = "", adapter: str = "openai_http", within_seconds: float = 5.0, kind: str = "") -> Reached:
    async def main() -> Reached:
        pool = Pool()
        try:
            endpoint = Endpoint("", base_url, Secret(key) if key else None)
            return await look_at(pool, ADAPTERS[adapter], endpoint, within_seconds, kind=kind)
        finally:
            await pool.close()

    return asyncio.run(main())


def test_the_models_of_a_provider_are_listed_and_its_key_is_sent():
    with ModelServer(models=("a", "models/b")) as server:
        reached = ask(server.base_url, key="sk-1")

    assert reached.models == ("a", "b")
    assert reached.problem == ""
    assert abs(reached.skew_seconds) < 60
    assert server.seen == [("GET", "/v1/models", "Bearer sk-1")]


def test_anthropics_list_is_asked_for_in_its_own_way():
    with ModelServer(models=("claude-x",)) as server:
        reached = ask(server.base_url.removesuffix("/v1"), key="sk-2", adapter="anthropic_http")

    assert reached.models == ("claude-x",)
    assert server.seen == [("GET", "/v1/models?limit=1000", "sk-2")]


@pytest.mark.parametrize(
    ("behaviour", "problem", "hint"),
    [
        ({"status": 401}, "refused the key (401)", "check ***"),
        ({"status": 403}, "refused the key (403)", "revoked"),
        ({"status": 500}, "answered 500", "later"),
        ({"status": 429}, "answered 429", "later"),
        ({"body": b"<!doctype html><html>hello</html>"}, "answered with a web page", "/v1"),
        ({"body": b"[1, 2"}, "something other than a list of models", "/v1"),
        ({"body": b'{"data": 3}'}, "something other than a list of models", "/v1"),
        (
            {"status": 308, "headers": {"location": "https://other.example/v1/models?x=1"}},
            "a redirect (308) to another host, other.example",
            "the key was not sent on",
        ),
        ({"hangs": True}, "did not answer in 0.3 s", "--timeout"),
    ],
)
def test_what_is_wrong_is_said_with_the_way_to_mend_it(behaviour, problem, hint):
    with ModelServer(**behaviour) as server:
        reached = ask(server.base_url, key="sk-canary", within_seconds=0.3 if behaviour.get("hangs") else 5.0)

    assert problem in reached.problem
    assert hint in reached.hint
    assert "sk-canary" not in reached.problem + reached.hint


@pytest.mark.parametrize(
    ("status", "body", "problem", "hint"),
    [
        (
            400,
            b'{"status":"failure","message":"Either x-portkey-config or x-portkey-provider header is required"}',
            "answered 400: Either x-portkey-config or x-portkey-provider header is required",
            "set the header that it asks for under headers: of this target",
        ),
        (500, b'{"error": "the key sk-canary is odd"}', "answered 500: the key *** is odd", "try again later"),
        (502, b"upstream connect error", "answered 502: upstream connect error", "try again later"),
        (400, b"", "answered 400", "check base_url: it usually ends in /v1"),
    ],
)
def test_a_targets_own_words_are_said_without_its_key(status, body, problem, hint):
    with ModelServer(status=status, body=body) as server:
        reached = ask(server.base_url, key="sk-canary")

    assert (reached.problem, reached.hint, reached.is_loading) == (problem, hint, False)


def test_an_engine_that_is_loading_is_told_apart_from_one_that_fails():
    with ModelServer(loading=1, headers={"server": "llama.cpp"}) as server:
        reached = ask(server.base_url)

    assert reached.problem == 'loading: it says "Loading model" (503)'
    assert reached.is_loading
    assert reached.engine.kind == "llamacpp"


@pytest.mark.parametrize(("key", "problem"), [("", "requires a key (401)"), ("caller", "")])
def test_a_server_that_wants_a_key_says_so_unless_callers_bring_theirs(key, problem):
    with ModelServer(status=401) as server:
        assert ask(server.base_url, key=key).problem == problem


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_a_list_is_not_at_fault(status):
    with ModelServer(status=status) as server:
        assert ask(server.base_url) == Reached(skew_seconds=pytest.approx(0, abs=60))


def test_nobody_at_the_port_and_no_such_host_are_told_apart():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = ask(f"http://127.0.0.1:{free.getsockname()[1]}/v1")
    nowhere = ask("http://nowhere.invalid/v1")

    assert nobody.problem == "could not be reached: connection failed"
    assert "is a server running at" in nobody.hint
    assert "does not resolve" in nowhere.problem
    assert "nowhere.invalid" in nowhere.hint


@pytest.mark.parametrize(
    ("proxy", "problem", "hint"),
    [
        ("http://u:s3cret-word@127.0.0.1:{port}", "the proxy in HTTPS_PROXY does not accept connections", "NO_PROXY"),
        ("http://u:s3cret-word@no-proxy.invalid:1", "the proxy in HTTPS_PROXY does not resolve", "runs at no-proxy.invalid:1"),
        ("socks5://u:s3cret-word@127.0.0.1:{port}", "a socks5:// proxy, which is not supported", "to an http:// proxy"),
    ],
)
def test_a_proxy_that_fails_is_named_and_not_the_target(monkeypatch, proxy, problem, hint):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTPS_PROXY", proxy.format(port=free.getsockname()[1]))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        read_address.cache_clear()
        reached = ask("https://api.example.com/v1", key="sk-canary")
    read_address.cache_clear()

    assert problem in reached.problem
    assert hint in reached.hint
    assert "s3cret-word" not in reached.problem + reached.hint


def test_plain_text_where_tls_was_expected_is_told():
    with ModelServer() as server:
        reached = ask(server.base_url.replace("http://", "https://"))

    assert "TLS failed" in reached.problem
    assert "tls.ca_file" in reached.hint


def test_a_model_that_is_not_listed_comes_with_what_it_may_have_meant():
    reached = judge_model(Reached(listed=(ListedModel("gpt-6.1-sol"), ListedModel("gpt-6-luna"))), "gpt-6.1-soll")

    assert reached.problem == "does not list the model gpt-6.1-soll"
    assert "did you mean gpt-6.1-sol?" in reached.hint


@pytest.mark.parametrize("model", ["a", "b"])
def test_a_model_that_is_listed_or_of_which_nothing_is_known_is_no_problem(model):
    assert judge_model(Reached(listed=(ListedModel("a"), ListedModel("b:latest"))), model).problem == ""
    assert judge_model(Reached(), model).problem == ""


def answer_of(server: ModelServer, within_seconds: float = 5.0, dialect: str = "chat") -> Reached:
    config = two_targets(server.base_url, server.base_url).replace("dialect: chat", f"dialect: {dialect}")
    loaded = load_text(config)

    async def main() -> Reached:
        built = build_house(loaded, with_ledger=False)
        try:
            return await ask_target(built.house, loaded.targets[0], within_seconds)
        finally:
            await built.close()

    return asyncio.run(main())


def test_a_target_answers_a_word_and_its_first_token_is_timed(capfd):
    with ModelServer() as server:
        reached = answer_of(server)

    assert reached.problem == ""
    assert 0 < reached.ttft_seconds < 5
    assert [path for _, path, _ in server.seen] == ["/v1/chat/completions"]
    assert capfd.readouterr().err == "", "a look is not a request of anybody's, so it is not logged"


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (400, "does not answer: answered 400: no money left"),
        (401, "does not answer: requires a key (401): no money left"),
        (402, "does not answer: has no credit left on this account (402): no money left"),
    ],
)
def test_a_target_that_refuses_a_word_says_why(status, problem):
    with ModelServer(answer_status=status) as server:
        assert answer_of(server).problem == problem


def test_a_target_of_another_dialect_is_told_where_to_look():
    with ModelServer() as server:
        reached = answer_of(server, dialect="responses")

    assert "without the terminal event" in reached.problem
    assert reached.hint == "check dialect: it may speak another one"


def test_work_is_done_at_once_and_answered_in_order():
    async def main() -> list[int]:
        both = asyncio.Barrier(3)

        async def wait(number: int) -> int:
            await both.wait()
            return number

        return await gather("x", [wait(3), wait(1), wait(2)])

    assert asyncio.run(main()) == [3, 1, 2]
    assert asyncio.run(gather("x", [])) == []


def test_what_fails_while_it_is_gathered_is_raised():
    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(gather("x", [fail()]))


@pytest.mark.parametrize(
    ("facts", "pages", "engine"),
    [
        ({"owned_by": "openai"}, {}, Engine()),
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
        assert ask(server.base_url, key="sk-1").engine == engine

    assert {key for _, _, key in server.seen} == {"Bearer sk-1"}
    assert len(server.seen) == (1 if facts["owned_by"] in ("openai", "vllm") else 2)


def test_a_server_that_does_not_say_what_it_is_may_be_taken_for_one():
    with ModelServer(pages={"/api/ps": {"models": [{"name": "m", "context_length": 4096}]}}) as server:
        assert ask(server.base_url, kind="ollama").engine == Engine("", None, {"m": 4096})


def test_a_page_that_is_not_json_says_nothing():
    with ModelServer(facts={"owned_by": "llamacpp"}, body=None) as server:
        server.pages = {}
        server.body = b'{"data": [{"id": "m", "owned_by": "llamacpp"}]'  # cut short, so neither a list nor a page
        assert ask(server.base_url).engine == Engine()
