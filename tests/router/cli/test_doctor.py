"""`tandem doctor`."""

import json

import pytest

from router.cli import main
from router.cli.setup import findings
from tests.conftest import SIMULATED
from tests.router.cli.model_server import ModelServer
from tests.tools.certificates import EXPIRED, write_pair
from tests.tools.running import two_targets


@pytest.fixture(autouse=True)
def _calm(monkeypatch):
    """Not what happens to run or be installed on this machine."""
    monkeypatch.setattr(findings, "installed_clients", tuple)


def config_for(server: ModelServer, *, model: str = "m", key: str = "") -> str:
    text = two_targets(
        server.base_url, server.base_url, fast_extra=f"api_key: '{key}'," if key else "", extra="server: {port: 0}"
    )
    return text.replace("fast-model", model).replace("deep-model", "m")


def states_of(out: str, about: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines() if line.split()[1:2] == [about]]


def test_a_router_in_good_order_has_nothing_to_mend(here, capsys, monkeypatch):
    monkeypatch.setenv("SPARK_TEST_KEY", "sk-canary")
    with ModelServer() as server:
        (here / "config.yaml").write_text(config_for(server, key="env:SPARK_TEST_KEY"))

        assert main(["doctor"]) == 0

    told = capsys.readouterr()
    assert states_of(told.out, "target") == ["ok", "ok"]
    assert "knows m, first token after" in told.out
    assert "env:SPARK_TEST_KEY, from the environment" in told.out
    assert "costs a few tokens" in told.err
    assert "nothing to fix" in told.err
    assert "sk-canary" not in told.out + told.err


def test_without_calls_nobody_writes_a_word(here, capsys):
    with ModelServer() as server:
        (here / "config.yaml").write_text(config_for(server))

        assert main(["doctor", "--no-calls"]) == 0

    assert {method for method, _, _ in server.seen} == {"GET"}
    assert "costs" not in capsys.readouterr().err


def test_what_is_wrong_with_a_target_ends_in_how_to_mend_it(here, capsys):
    with ModelServer(models=("right-model", "m")) as server:
        (here / "config.yaml").write_text(config_for(server, model="rihgt-model"))

        assert main(["doctor", "--no-calls"]) == 1

    told = capsys.readouterr()
    assert "does not list the model rihgt-model" in told.out
    assert "hint: did you mean right-model?" in told.out
    assert "1 thing to fix" in told.err


def test_a_clock_that_is_off_is_noted(here, capsys):
    with ModelServer(headers={"date": "Sun, 01 Jan 2006 00:00:00 GMT"}) as server:
        (here / "config.yaml").write_text(config_for(server))

        assert main(["doctor", "--no-calls"]) == 0

    assert states_of(capsys.readouterr().out, "clock") == ["note", "note"]


def test_a_config_with_faults_does_not_keep_the_rest_from_being_looked_at(here, capsys):
    (here / "config.yaml").write_text("tiers: {fast: {targets: []}}\nserver: {host: 0.0.0.0}\n")

    assert main(["doctor"]) == 1

    out = capsys.readouterr().out
    assert states_of(out, "config") == ["fix", "fix", "fix"]
    assert "server.host: 0.0.0.0 is not a loopback address" in out
    assert states_of(out, "port") != []


def test_a_program_gets_the_same_as_json(home, capsys):
    assert main(["doctor", "--json", "--verbose"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert {"config", "python", "tokenizer", "port", "ledger", "target"} <= {entry["about"] for entry in told}
    assert all(set(entry) == {"about", "state", "text", "hint"} for entry in told)


def test_a_newcomer_hears_nothing_of_builds_and_vocabularies(home, capsys):
    assert main(["doctor"]) == 0

    out = capsys.readouterr().out
    assert {line.split()[0] for line in out.splitlines() if not line.startswith(" ")} <= {"ok", "note"}
    assert not any(word in out for word in ("python", "vocabulary", "tokenizer", "optimiz"))


def test_a_target_that_hangs_is_told_within_the_time_that_it_has(here, capsys):
    with ModelServer(hangs=True) as server:
        (here / "config.yaml").write_text(config_for(server))

        assert main(["doctor", "--timeout", "0.3"]) == 1

    assert capsys.readouterr().out.count("did not answer in 0.3 s") == 2


def llama_server(**more: object) -> ModelServer:
    facts = {"owned_by": "llamacpp", "meta": {"n_ctx": 2048, "n_params": 1}}
    return ModelServer(facts=facts, pages={"/props": {"total_slots": 1}}, **more)


def test_a_window_and_a_limit_that_the_engine_does_not_have_are_told_with_the_true_ones(here, capsys):
    with llama_server() as server:
        (here / "config.yaml").write_text(config_for(server))

        assert main(["doctor", "--no-calls"]) == 1

    out = " ".join(capsys.readouterr().out.split())
    assert (
        "deep sage: its window_tokens is 400,000, but its engine's window is 2,048 tokens hint: set window_tokens: 2048" in out
    )
    assert "its engine serves 1 request at a time, and the config sets no limit hint: set quota.in_flight: 1" in out


def test_the_engine_is_asked_after_the_call_that_may_load_its_model(here):
    with llama_server() as server:
        (here / "config.yaml").write_text(config_for(server))

        main(["doctor"])

    assert [path for _, path, _ in server.seen[-2:]] == ["/props", "/props"]


def test_an_engine_that_is_loading_is_told_in_its_own_words(here, capsys):
    with llama_server(loading=10) as server:
        (here / "config.yaml").write_text(config_for(server))

        assert main(["doctor", "--no-calls"]) == 1

    assert 'fast spark: loading: it says "Loading model" (503)' in capsys.readouterr().out


def test_windows_that_are_small_for_coding_agents_are_noted(here, capsys):
    with ModelServer() as server:
        (here / "config.yaml").write_text(config_for(server).replace("window_tokens: 400000", "window_tokens: 9000"))

        assert main(["doctor", "--no-calls"]) == 0

    assert states_of(capsys.readouterr().out, "window") == ["note"]


def test_a_config_that_is_not_there_is_told_by_its_path(here, capsys):
    assert main(["doctor", "--config", "nowhere.yaml"]) == 1

    assert "fix   config     nowhere.yaml: No such file or directory" in capsys.readouterr().out


def test_the_port_of_a_faulty_config_is_the_one_that_is_looked_at(here, capsys):
    (here / "config.yaml").write_text(SIMULATED + "server: {port: 4001}\nnonsense: 1\n")

    assert main(["doctor", "--no-calls"]) == 1

    assert "127.0.0.1:4001" in capsys.readouterr().out


def test_headers_and_query_of_a_target_are_part_of_every_question(here, capsys, monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", "gateway-canary-0123456789")
    with ModelServer(needs_headers={"x-gateway": "gateway-canary-0123456789"}) as server:
        extra = "headers: {x-gateway: env:GATEWAY_TOKEN}, query: {api-version: 2024-10-21},"
        config = (
            config_for(server).replace("name: spark,", f"name: spark, {extra}").replace("name: sage,", f"name: sage, {extra}")
        )
        (here / "config.yaml").write_text(config)

        assert main(["doctor"]) == 0
        assert main(["check", "--live"]) == 0

    told = capsys.readouterr()
    assert {path.partition("?")[2] for _, path, _ in server.seen} == {"api-version=2024-10-21"}
    assert "env:GATEWAY_TOKEN, from the environment" in told.out
    assert "canary" not in told.out + told.err
    assert "sends x-gateway, api-version" in told.out


def test_an_expired_certificate_is_to_be_renewed(here, capsys):
    write_pair(here, EXPIRED)
    (here / "config.yaml").write_text(f"{SIMULATED}server: {{port: 0, tls: {{cert: cert.pem, key: key.pem}}}}\n")

    assert main(["doctor", "--no-calls"]) == 1

    told = capsys.readouterr().out
    assert states_of(told, "tls") == ["fix"]
    assert "expired on 2021-01-01" in told
