"""What `tandem check --live` finds by asking."""

import asyncio
import json

import pytest

from router.cli import main
from router.cli.setup.engines import Engine
from router.cli.setup.remote import compare
from tests.conftest import SIMULATED
from tests.router.cli.model_server import ModelServer
from tests.tools.configs import load_text
from tests.tools.kept import make_entry, open_entries
from tests.tools.running import two_targets

SHARED = "shared: {valkey: {url: env:TANDEM_VALKEY_URL}, postgres: {url: env:TANDEM_POSTGRES_URL}, replica: web-1}\n"


def config_for(server: ModelServer, *, model: str = "m", key: str = "") -> str:
    text = two_targets(server.base_url, server.base_url, fast_extra=f"api_key: '{key}'," if key else "")
    return text.replace("fast-model", model).replace("deep-model", "m")


def test_nobody_is_asked_without_being_told_to(check):
    with ModelServer() as server:
        assert check(config_for(server))[0] == 0

    assert server.seen == []


def test_a_router_in_good_order_has_nothing_to_fix(check, monkeypatch):
    monkeypatch.setenv("SPARK_TEST_KEY", "sk-canary")
    with ModelServer() as server:
        code, said = check(config_for(server, key="env:SPARK_TEST_KEY"), "--live")

    assert code == 0
    assert said.count("ok target") == 2
    assert "knows m, first token after" in said
    assert "asking 2 targets for a short answer, which costs a few tokens" in said
    assert "sk-canary" not in said


def test_without_calls_nobody_writes_a_word_and_what_was_not_asked_is_not_called_good(check):
    with ModelServer(models=("m",)) as server:
        code, said = check(config_for(server), "--live", "--no-calls")
    with ModelServer(status=404) as other:
        text = two_targets(other.base_url, other.base_url, deep_extra="api_key: caller,")
        unlisted = check(f"{text}\n", "--live", "--no-calls")

    assert {method for method, _, _ in server.seen} == {"GET"}
    assert (code, "costs" in said) == (0, False)
    assert unlisted[0] == 0
    assert "note target fast spark: has no list of models, so its key and model were not checked" in unlisted[1]
    assert "note target deep sage: has no list of models, not called: callers bring their own key" in unlisted[1]
    assert "ok target" not in unlisted[1]


LLAMA = {"facts": {"owned_by": "llamacpp", "meta": {"n_ctx": 2048, "n_params": 1}}, "pages": {"/props": {"total_slots": 1}}}


@pytest.mark.parametrize(
    ("behaviour", "model", "said"),
    [
        (
            {"models": ("right-model", "m")},
            "rihgt-model",
            "does not list the model rihgt-model hint: did you mean right-model?",
        ),
        ({"hangs": True}, "m", "did not answer in 0.3 s hint: try again, or raise --timeout"),
        ({"loading": 10, **LLAMA}, "m", 'fast spark: loading: it says "Loading model" (503)'),
        (LLAMA, "m", "its window_tokens is 400,000, but its engine's window is 2,048 tokens hint: set window_tokens: 2048"),
    ],
)
def test_what_is_wrong_with_a_target_ends_in_how_to_fix_it(check, behaviour, model, said):
    with ModelServer(**behaviour) as server:
        code, told = check(
            config_for(server, model=model), "--live", "--no-calls", "--timeout", "0.3" if "hangs" in behaviour else "9"
        )

    assert code == 1
    assert said in told


def test_a_server_that_is_not_there_and_a_clock_that_is_off_are_said(check):
    nowhere = check(two_targets("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1") + "\n", "--live")
    with ModelServer(headers={"date": "Sun, 01 Jan 2006 00:00:00 GMT"}) as server:
        late = check(config_for(server), "--live", "--no-calls")

    assert nowhere[0] == 1
    assert "could not be reached" in nowhere[1]
    assert "hint: is a server running at http://127.0.0.1:1/v1?" in nowhere[1]
    assert (late[0], late[1].count("note clock")) == (0, 2)


def test_more_at_once_than_an_engine_serves_is_noted_and_it_is_asked_after_the_call_that_may_load_its_model(check):
    with ModelServer(**LLAMA) as server:
        _, said = check(config_for(server), "--live")

    assert [path for _, path, _ in server.seen[-2:]] == ["/props", "/props"]
    assert "its engine serves 1 request at a time, and the config sets no limit hint: set quota.in_flight: 1" in said


def test_headers_and_query_of_a_target_are_part_of_every_question(check, monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", "gateway-canary-0123456789")
    with ModelServer(needs_headers={"x-gateway": "gateway-canary-0123456789"}) as server:
        extra = "headers: {x-gateway: env:GATEWAY_TOKEN}, query: {api-version: 2024-10-21},"
        config = config_for(server)
        for name in ("spark", "sage"):
            config = config.replace(f"name: {name},", f"name: {name}, {extra}")

        code, said = check(config, "--live")
        described = check(config)[1]

    assert code == 0
    assert {path.partition("?")[2] for _, path, _ in server.seen} == {"api-version=2024-10-21"}
    assert "env:GATEWAY_TOKEN, from the environment" in said
    assert "sends x-gateway, api-version" in described
    assert "canary" not in said + described


@pytest.mark.parametrize(
    ("extra", "engine", "state", "text", "hint"),
    [
        (
            "window_tokens: 32000,",
            Engine("llamacpp", None, {"fast-model": 8192}),
            "fix",
            "its window_tokens is 32,000, but its engine's window is 8,192 tokens",
            "set window_tokens: 8192",
        ),
        *(
            (
                quota,
                Engine("llamacpp", 2),
                "note",
                f"its engine serves 2 requests at a time, and the config {said}",
                "set quota",
            )
            for quota, said in (("", "sets no limit"), ("quota: {in_flight: 3},", "allows 3"))
        ),
    ],
)
def test_a_config_that_asks_for_more_than_its_engine_has_is_told(extra, engine, state, text, hint):
    plan, _ = load_text(two_targets("http://h/v1", "http://h/v1", fast_extra=extra)).targets

    (found,) = compare("fast a", plan, engine)

    assert (found.state, found.text) == (state, f"fast a: {text}")
    assert found.hint.startswith(hint)


@pytest.mark.parametrize("engine", [Engine(), Engine("llamacpp", 1, {"fast-model": 8192, "other": 4096})])
def test_a_config_that_asks_for_no_more_than_there_is_is_not_remarked_on(engine):
    extra = "window_tokens: 8192, quota: {in_flight: 1},"
    plan, _ = load_text(two_targets("http://h/v1", "http://h/v1", fast_extra=extra)).targets

    assert compare("fast a", plan, engine) == []


@pytest.fixture
def shared(here, valkey, postgres, monkeypatch):
    """A config with both stores, and an empty database."""
    pytest.importorskip("asyncpg")
    monkeypatch.setenv("TANDEM_VALKEY_URL", valkey.url())
    monkeypatch.setenv("TANDEM_POSTGRES_URL", asyncio.run(postgres.create()))
    return SIMULATED + SHARED


def test_stores_are_shown_before_and_after_a_migration_and_only_that_migrates(check, shared, here, capsys):
    before = check(shared, "--live")
    again = check(shared, "--live")
    migrated = [check(shared, "--migrate") for _ in range(2)]
    after = check(shared, "--live")

    assert [code for code, _ in (before, again, *migrated, after)] == [1, 1, 0, 0, 0]
    assert "migrations applied: none, the database has no tables yet" in before[1]
    assert "fix postgres migrations missing: 0004" in again[1]
    assert "hint: tandem check --migrate, or start a router" in before[1]
    assert migrated[0][1].startswith("shared.postgres: applied 0004")
    assert migrated[1][1] == "shared.postgres: nothing to do, the tables are up to date"
    assert "ok valkey " in after[1]
    assert "0 routers connected" in after[1]
    assert "ledger of all routers: 0 rows" in after[1]


def test_json_says_how_much_of_this_machines_ledger_is_to_be_copied(check, shared, here, capsys):
    async def fill() -> None:
        store = open_entries(here / "test.db", [])
        store.append(make_entry())
        await store.close()

    asyncio.run(fill())
    check(shared, "--migrate")

    assert main(["check", "--live", "--json"]) == 0

    told = {entry["about"]: entry["figures"] for entry in json.loads(capsys.readouterr().out) if "figures" in entry}
    assert (told["copy"]["waiting_rows"], told["copy"]["lost_rows"]) == (1, 0)
    assert told["copy"]["lag_seconds"] >= 0
    assert told["postgres"]["migrations_missing"] == []
    assert told["valkey"]["routers"] == 0


def test_a_store_that_is_away_is_to_be_fixed_and_shows_no_password(check, shared, monkeypatch):
    monkeypatch.setenv("TANDEM_VALKEY_URL", "redis://:s3cret@127.0.0.1:1")
    monkeypatch.setenv("TANDEM_POSTGRES_URL", "postgresql://ann:s3cret@127.0.0.1:1/d")

    looked, migrated = check(shared, "--live"), check(shared, "--migrate")

    assert (looked[0], migrated[0]) == (1, 1)
    assert "fix valkey shared.valkey: the server cannot be reached" in looked[1]
    assert "fix postgres shared.postgres: the database cannot be reached" in looked[1]
    assert "shared.postgres: the database cannot be reached" in migrated[1]
    assert "s3cret" not in looked[1] + migrated[1]


def test_a_server_that_refuses_the_password_keeps_a_router_from_starting_and_a_full_one_does_not(
    check, shared, valkey, own_valkey, monkeypatch
):
    own_valkey.send("CONFIG", "SET", "maxmemory", "1")
    check(shared, "--migrate")
    monkeypatch.setenv("TANDEM_VALKEY_URL", own_valkey.url())
    full = check(shared, "--live")
    monkeypatch.setenv("TANDEM_VALKEY_URL", valkey.url("locked", "wrong"))
    refused = check(shared, "--live")

    assert (full[0], refused[0], main(["serve"])) == (1, 2, 2)
    assert "shared.valkey: the server answered OOM: its memory is full" in full[1]
    assert "shared.valkey: the server refused the user name or the password" in refused[1]


def test_only_a_database_can_be_migrated(check):
    assert check(SIMULATED, "--migrate") == (2, "there is nothing to migrate: shared.postgres is not set")


def test_a_live_check_does_not_ask_a_plan_and_says_where_it_can_be_tried(check):
    with ModelServer() as server:
        target = (
            f'{{name: mine, adapter: anthropic_http, base_url: "{server.base_url}", model: m, api_key: caller, billing: plan}}'
        )
        fast = "{name: quick, adapter: simulated}"
        code, said = check(f"tiers: {{fast: {{targets: [{fast}]}}, deep: {{targets: [{target}]}}}}\n", "--live")

    assert code == 0
    assert "note target deep mine: not asked: a plan can only be tried from its client" in said
    assert "hint: tandem connect claude-code --keep-login, then ask Claude Code something" in said
    assert "asking 1 target" not in said
    assert server.seen == []
