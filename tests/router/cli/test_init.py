"""`tandem init`."""

import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from router.cli import init, main
from router.cli.setup import around
from router.cli.setup.presets import read_presets
from tests.router.cli.model_server import ModelServer


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch):
    """No provider of the world, and no server that may run on this machine."""
    point_presets(monkeypatch, {})


def point_presets(monkeypatch, addresses: dict[str, str]) -> None:
    """Presets at these addresses; all others where nobody listens."""
    shipped = read_presets()
    moved = {
        name: replace(provider, base_url=addresses.get(name, "http://127.0.0.1:1/v1"))
        for name, provider in shipped.providers.items()
    }
    offers = {
        tier: tuple(replace(offer, provider=moved[offer.provider.name]) for offer in known)
        for tier, known in shipped.offers.items()
    }
    spares = {
        tier: tuple(replace(offer, provider=moved[offer.provider.name]) for offer in known)
        for tier, known in shipped.spares.items()
    }
    monkeypatch.setattr(init, "read_presets", lambda: replace(shipped, providers=moved, offers=offers, spares=spares))


def test_init_writes_a_config_for_the_keys_that_are_here_and_never_over_another(here, capsys, monkeypatch):
    monkeypatch.setenv("CEREBRAS_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "y")

    assert main(["init"]) == 0
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "cerebras" in out
    assert "anthropic" in out
    assert "simulated" not in out
    assert main(["init"]) == 2
    assert "was not changed" in capsys.readouterr().err
    mine = (here / "config.yaml").read_text()
    assert main(["init", "--force"]) == 0
    assert main(["init", "--force"]) == 0
    assert (here / "config.yaml.bak").read_text() == mine
    assert (here / "config.yaml.bak.1").exists()


def test_the_file_is_its_owners_alone_and_one_that_was_there_keeps_its_mode(here, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "x")
    mask = os.umask(0)
    try:
        main(["init", "--yes", "--offline", "--output", "new.yaml"])
        Path("open.yaml").touch(mode=0o666)
        Path("open.yaml").chmod(0o644)
        main(["init", "--yes", "--offline", "--force", "--output", "open.yaml"])
    finally:
        os.umask(mask)

    assert [Path(name).stat().st_mode & 0o777 for name in ("new.yaml", "open.yaml")] == [0o600, 0o644]


def test_what_connect_env_gives_to_clients_is_no_key(here, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "tandem")

    assert main(["init"]) == 0

    assert "found no key and no local server" in capsys.readouterr().err


def test_init_that_finds_nothing_leaves_an_existing_file_alone(here, capsys):
    (here / "config.yaml").write_text("mine: yes\n")

    assert main(["init", "--force"]) == 1
    assert (here / "config.yaml").read_text() == "mine: yes\n"
    assert "was not changed" in capsys.readouterr().err


def test_examples_are_in_a_dialect_that_the_config_serves(here, capsys, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "y")
    assert main(["init"]) == 0

    assert main(["explain", "fix the typo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"] == ["anthropic-fast"]


def test_init_with_one_key_gives_both_tiers_a_target(here, capsys, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "x")

    assert main(["init"]) == 0
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "groq-deep" in out
    assert "simulated" not in out


def test_azure_is_written_once_its_address_and_deployment_are_known(here, capsys, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "x")
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_DEPLOYMENT"):
        monkeypatch.delenv(name, raising=False)

    assert main(["init", "--offline", "--print"]) == 0
    assert "AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT must be set too" in capsys.readouterr().err

    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT", "work")
    assert main(["init", "--offline", "--print"]) == 0
    out = capsys.readouterr().out
    assert "base_url: https://mine.openai.azure.com/openai/v1" in out
    assert "model: work" in out


def test_init_without_anything_keeps_the_simulated_tiers_and_says_so(here, capsys):
    assert main(["init", "--print"]) == 0
    printed = capsys.readouterr()

    assert "keeping the simulated tiers" in printed.err
    assert "simulated-fast" in printed.out
    assert not (here / "config.yaml").exists()


def test_init_finds_a_local_server_and_its_model(here, capsys, monkeypatch):
    with ModelServer(models=("my-local-model",)) as server:
        point_presets(monkeypatch, {"ollama": server.base_url})

        assert main(["init"]) == 0

    text = (here / "config.yaml").read_text()
    assert "model: my-local-model" in text
    assert f"base_url: {server.base_url}" in text
    told = capsys.readouterr().err
    assert f"found Ollama: a server on this machine ({server.base_url}), my-local-model" in told
    assert "assumed to be Ollama because of its port" in told
    assert "does not report the window of my-local-model: 32000 is a guess" in told


def llama_server(model: str = "smol", *, window: int = 8192, slots: int = 1, parameters: int = 135_000_000) -> ModelServer:
    """A server that says what llama.cpp says."""
    meta = {"n_ctx": window, "n_params": parameters}
    return ModelServer(models=(model,), facts={"owned_by": "llamacpp", "meta": meta}, pages={"/props": {"total_slots": slots}})


def targets_of(here: Path) -> dict[str, list[dict[str, object]]]:
    tiers = yaml.safe_load((here / "config.yaml").read_text())["tiers"]
    return {tier: block["targets"] for tier, block in tiers.items()}


def test_a_local_engine_is_written_with_its_own_window_and_slots_and_known_at_any_port(here, capsys, monkeypatch):
    with llama_server("/models/SmolLM2-135M.Q4_1.gguf", window=2048, slots=2) as server:
        point_presets(monkeypatch, {"vllm": server.base_url})

        assert main(["init"]) == 0
        assert main(["check", "--live"]) == 0

    (fast,), (deep,) = targets_of(here).values()
    assert (fast["name"], deep["name"]) == ("llamacpp-fast", "llamacpp-deep")
    assert fast["model"] == "/models/SmolLM2-135M.Q4_1.gguf"
    assert fast["window_tokens"] == deep["window_tokens"] == 2048
    assert (fast["quota"], deep["quota"]) == ({"in_flight": 2, "max_wait_seconds": 60}, {"in_flight": 2})
    told = capsys.readouterr()
    assert "SmolLM2-135M.Q4_1, window of 2,048 tokens, serves 2 requests at a time" in told.err
    assert "too small for coding agents: llamacpp-fast (2,048 tokens)" in told.err
    assert "/models/" not in told.err + told.out
    assert "is a guess" not in told.err


def test_of_two_local_models_the_smaller_serves_fast_and_the_larger_deep(here, capsys, monkeypatch):
    with llama_server("big", parameters=70_000_000_000) as big, llama_server("small") as small:
        point_presets(monkeypatch, {"vllm": small.base_url, "llamacpp": big.base_url})

        assert main(["init"]) == 0

    (fast,), (deep,) = targets_of(here).values()
    assert (fast["name"], fast["model"]) == (f"llamacpp-{small.port}", "small")
    assert (deep["name"], deep["model"]) == ("llamacpp", "big")
    assert (fast["quota"], deep["quota"]) == ({"in_flight": 1, "max_wait_seconds": 5}, {"in_flight": 1})
    assert f"fast gets small (llamacpp-{small.port}); deep gets the larger model, big (llamacpp)" in capsys.readouterr().err


def test_two_servers_with_the_same_model_serve_both_tiers_each_preferred_by_one(here, capsys, monkeypatch):
    with llama_server() as one, llama_server() as two:
        point_presets(monkeypatch, {"vllm": one.base_url, "llamacpp": two.base_url})

        assert main(["init"]) == 0

    orders = [[target["base_url"] for target in targets] for targets in targets_of(here).values()]
    assert orders == [[one.base_url, two.base_url], [two.base_url, one.base_url]]
    assert "have the same model" in (told := capsys.readouterr().err)
    assert "does not change the answer" in told


def test_models_whose_sizes_are_unknown_are_not_ranked_and_flags_say_who_serves(here, capsys, monkeypatch):
    with ModelServer(models=("mystery",)) as one, ModelServer(models=("riddle",)) as two:
        point_presets(monkeypatch, {"ollama": one.base_url, "lmstudio": two.base_url})

        assert main(["init"]) == 0
        assert "cannot tell which local server has the larger model" in capsys.readouterr().err
        assert main(["init", "--force", "--fast", "ollama", "--deep", "lmstudio"]) == 0

    (fast,), (deep,) = targets_of(here).values()
    assert (fast["model"], deep["model"]) == ("mystery", "riddle")


def test_with_a_key_local_servers_serve_fast_after_the_provider(here, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with llama_server("big-70b") as one, llama_server("small-7b") as two:
        point_presets(monkeypatch, {"vllm": one.base_url, "llamacpp": two.base_url})

        assert main(["init"]) == 0

    fast, deep = targets_of(here).values()
    assert fast[0]["name"] == "openai-fast"
    assert len(fast) == 3
    assert [target["name"] for target in deep] == ["openai-deep"]


def test_an_engine_at_another_ones_port_is_named_where_that_one_was_asked_for(here, capsys, monkeypatch):
    with llama_server() as server:
        point_presets(monkeypatch, {"vllm": server.base_url})

        assert main(["init", "--fast", "vllm"]) == 2
        assert f"the server at {server.base_url} is llama.cpp: --fast llamacpp" in capsys.readouterr().err
        assert main(["init", "--fast", "llamacpp-9"]) == 2
        assert "local servers that were found: llamacpp" in capsys.readouterr().err


def test_a_window_that_only_loaded_models_have_is_read_and_a_loaded_model_is_preferred(here, monkeypatch):
    loaded = {"models": [{"name": "qwen3:8b", "context_length": 16384}]}
    with ModelServer(
        models=("nomic-embed-text", "llama3:70b", "qwen3:8b"), facts={"owned_by": "library"}, pages={"/api/ps": loaded}
    ) as server:
        point_presets(monkeypatch, {"ollama": server.base_url})

        assert main(["init"]) == 0

    (fast,), _ = targets_of(here).values()
    assert (fast["model"], fast["window_tokens"], fast["quota"]) == ("qwen3:8b", 16384, {"max_wait_seconds": 60})


def test_init_waits_for_an_engine_that_is_loading(here, capsys, monkeypatch):
    with llama_server() as server:
        server.loading = 2
        monkeypatch.setattr(around, "LOOK_AGAIN_SECONDS", 0.01)
        point_presets(monkeypatch, {"llamacpp": server.base_url})

        assert main(["init"]) == 0

    told = capsys.readouterr().err
    assert f'the server at {server.base_url} is loading: it says "Loading model" (503)' in told
    assert f"found llama.cpp: a server on this machine ({server.base_url}), smol" in told
    assert "llamacpp" in (here / "config.yaml").read_text()


def test_an_engine_that_loads_for_too_long_is_left_out(here, capsys, monkeypatch):
    with llama_server() as server:
        server.loading = 1_000_000
        monkeypatch.setattr(around, "LOADING_SECONDS", 0.05)
        monkeypatch.setattr(around, "LOOK_AGAIN_SECONDS", 0.01)
        point_presets(monkeypatch, {"llamacpp": server.base_url})

        assert main(["init"]) == 0

    told = capsys.readouterr().err
    assert "is still loading; skipped" in told
    assert "keeping the simulated tiers" in told


def test_a_model_that_is_gone_gives_way_to_the_newest_that_the_provider_lists(here, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    with ModelServer(models=("gpt-9-luna", "gpt-8-luna", "gpt-9.2-sol")) as server:
        point_presets(monkeypatch, {"openai": server.base_url})

        assert main(["init"]) == 0

    assert server.seen == [("GET", "/v1/models", "Bearer sk-canary")]
    assert re.findall(r"model: (.*)", (here / "config.yaml").read_text()) == ["gpt-9-luna", "gpt-9.2-sol"]
    told = capsys.readouterr()
    assert "sk-canary" not in told.err + told.out + (here / "config.yaml").read_text()


def test_offline_the_names_that_ship_are_written_and_that_is_said(here, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")

    assert main(["init"]) == 0
    assert "could not be reached" in (told := capsys.readouterr().err)
    assert "names that ship with Tandem" in told
    assert main(["init", "--offline", "--force"]) == 0
    assert "not asked for its models" in capsys.readouterr().err


def test_a_key_in_the_file_next_to_the_config_counts(here, capsys):
    (here / ".env").write_text("export GROQ_API_KEY='gsk-canary'\n")
    (here / ".env").chmod(0o600)

    assert main(["init"]) == 0
    assert main(["check"]) == 0

    told = capsys.readouterr()
    assert "env:GROQ_API_KEY, from .env" in told.out
    assert "gsk-canary" not in told.out + told.err


def test_flags_say_who_serves_a_tier(here, monkeypatch):
    for name in ("GROQ_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "x")

    assert main(["init", "--fast", "groq:small-one", "--deep", "anthropic", "--deep", "openai:big-one", "--yes"]) == 0

    text = (here / "config.yaml").read_text()
    assert re.findall(r"- name: (.*)", text) == ["groq", "anthropic", "openai"]
    assert "model: small-one" in text
    assert "model: big-one" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fast", "grok"], "did you mean groq?"),
        (["--deep", "kimi"], "hint: set MOONSHOT_API_KEY or KIMI_API_KEY"),
        (["--fast", "lmstudio"], "LM Studio was not found here"),
        (["--output", "/dev/null/config.yaml"], "/dev/null is not a folder"),
        (["--output", "."], ". is a folder"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_way_out(here, capsys, arguments, said):
    assert main(["init", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_a_folder_that_is_missing_is_made_for_its_owner_alone(here):
    assert main(["init", "--offline", "--output", "mine/tandem/config.yaml"]) == 0

    assert (here / "mine/tandem/config.yaml").is_file()
    assert (here / "mine").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_written_to_is_said_plainly(here, capsys):
    assert main(["init", "--output", "/proc/config.yaml"]) == 1
    assert "cannot write /proc/config.yaml: " in capsys.readouterr().err


def talk(folder, answers: str, *arguments: str) -> str:
    """Run the command on a terminal, type these answers, and hear what it says."""
    controller, terminal = pty.openpty()
    code = "import sys; from router.cli import main; sys.exit(main())"
    environment = {
        **os.environ,
        "GROQ_API_KEY": "x",
        "OPENAI_API_KEY": "y",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TERM": "dumb",
    }
    command = [sys.executable, "-c", code, "init", "--offline", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    os.write(controller, answers.encode())
    said = b""
    while True:
        try:
            piece = os.read(controller, 4096)
        except OSError:  # what Linux answers when the other end of a terminal is closed
            break
        if not piece:
            break
        said += piece
    os.close(controller)
    assert process.wait(20) == 0
    return said.decode()


def test_on_a_terminal_it_asks_and_enter_takes_what_is_usual(here):
    said = talk(here, "\n" * 10)

    assert "Who serves fast?" in said
    assert "numbers, preferred first [1 2]:" in said
    assert "model of Groq for fast" in said
    assert re.findall(r"- name: (.*)", (here / "config.yaml").read_text()) == ["groq", "openai-fast", "openai-deep"]


def test_answers_choose_the_targets_their_order_and_their_models(here):
    talk(here, "9\n2 1\nmy-small\n\n\nmy-large\n")

    text = (here / "config.yaml").read_text()
    assert re.findall(r"- name: (.*)", text) == ["openai-fast", "groq", "openai-deep"]
    assert re.findall(r"model: (.*)", text) == ["my-small", "openai/gpt-oss-120b", "my-large"]


def test_yes_asks_nothing_on_a_terminal(here):
    assert "Who serves" not in talk(here, "", "--yes")


def test_an_unreadable_env_file_is_said(here, capsys):
    (here / ".env").write_bytes(b"\xff")

    assert main(["init"]) == 2
    assert "is not UTF-8" in capsys.readouterr().err


REFUSED = b'{"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}'


def test_a_key_that_its_provider_refuses_is_told_in_its_words_and_not_written(here, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "good")
    with ModelServer(status=401, body=REFUSED) as server:
        point_presets(monkeypatch, {"openai": server.base_url})

        assert main(["init", "--yes"]) == 0

    told, written = capsys.readouterr().err, Path("config.yaml").read_text()
    assert "found OpenAI: OPENAI_API_KEY, not used: it refused the key (401): Incorrect API key provided" in told
    assert "hint: OpenAI: check env:OPENAI_API_KEY" in told
    assert "env:OPENAI_API_KEY" not in written
    assert "env:ANTHROPIC_API_KEY" in written
    assert "canary" not in told + written


@pytest.mark.parametrize("more", [[], ["--print"], ["--force"]])
def test_where_every_key_is_refused_nothing_is_written(here, capsys, monkeypatch, more):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    with ModelServer(status=403, body=REFUSED) as server:
        point_presets(monkeypatch, {"openai": server.base_url})

        assert main(["init", "--yes", *more]) == 1

    told = capsys.readouterr()
    assert not Path("config.yaml").exists()
    assert told.out == ""
    assert "no usable key or local server: nothing was written" in told.err
    assert "init --offline" in told.err


def test_a_provider_that_is_asked_for_by_name_and_refuses_the_key_is_not_called_absent(here, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "good")
    with ModelServer(status=401, body=REFUSED) as server:
        point_presets(monkeypatch, {"openai": server.base_url})

        assert main(["init", "--yes", "--fast", "openai"]) == 2

    assert "--fast openai: its key cannot be used; see above" in capsys.readouterr().err


def test_a_key_that_only_litellm_can_use_is_named_with_what_to_write(here, capsys, monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-canary")

    assert main(["init", "--yes"]) == 0

    told = capsys.readouterr().err
    assert "- {name: mistral, adapter: litellm, model: mistral/mistral-large-latest, api_key: 'env:MISTRAL_API_KEY'}" in told
    assert "canary" not in told


def test_one_provider_named_for_both_tiers_gives_two_models(here, capsys, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "x")

    assert main(["init", "--print", "--offline", "--fast", "groq", "--deep", "groq"]) == 0

    assert re.findall("model: (.*)", capsys.readouterr().out) == ["openai/gpt-oss-20b", "openai/gpt-oss-120b"]


def test_a_model_of_which_nothing_is_known_is_said_so(here, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")

    assert main(["init", "--print", "--offline", "--fast", "openai:nobody-knows-this"]) == 0

    told = capsys.readouterr()
    assert "the window, abilities and price of nobody-knows-this (OpenAI) are not known here" in told.err
    assert "window_tokens" not in told.out.partition("deep:")[0].partition("fast:")[2]


@pytest.fixture
def planned(here, capsys, monkeypatch):
    """Runs `tandem init` offline, and answers the targets of the written config and what was said."""
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setenv("PATH", "/nowhere")

    def run(*options: str) -> tuple[dict[str, list[dict]], str]:
        assert main(["init", "--offline", "--yes", *options]) == 0
        tiers = yaml.safe_load((here / "config.yaml").read_text())["tiers"]
        return {tier: block["targets"] for tier, block in tiers.items()}, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("plan", "adapter", "address", "models", "client"),
    [
        ("claude", "anthropic_http", "https://api.anthropic.com", ["claude-haiku-5-5", "claude-opus-5-5"], "claude-code"),
        ("chatgpt", "openai_http", "https://chatgpt.com/backend-api/codex", ["gpt-6-luna", "gpt-6.1-sol"], "codex"),
    ],
)
def test_where_nothing_else_is_here_the_plan_serves_both_tiers(planned, plan, adapter, address, models, client):
    targets, said = planned("--plan", plan)

    both = [*targets["fast"], *targets["deep"]]
    assert [target["model"] for target in both] == models
    assert {(one["adapter"], one["base_url"], one["api_key"], one["billing"]) for one in both} == {
        (adapter, address, "caller", "plan")
    }
    assert f"tandem connect {client} --keep-login  points" in said
    assert main(["check"]) == 0


def test_fast_is_what_was_found_and_a_key_takes_over_from_the_plan_only_if_it_is_named(planned, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "x")
    monkeypatch.setenv("OPENAI_API_KEY", "y")

    targets, said = planned("--plan", "claude")

    assert [target["name"] for target in targets["fast"]] == ["groq", "openai"]
    assert targets["fast"][0]["model"] == "openai/gpt-oss-120b"
    assert [target["name"] for target in targets["deep"]] == ["claude-plan"]
    assert "deep is your plan alone; --deep openai adds one for when it is used up" in said
    targets, _ = planned("--force", "--plan", "claude", "--plan", "chatgpt", "--deep", "openai", "--fast", "groq")
    assert [target["name"] for target in targets["deep"]] == ["claude-plan", "chatgpt-plan", "openai"]
    assert [target.get("billing") for target in targets["deep"]] == ["plan", "plan", None]
