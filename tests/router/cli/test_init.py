"""`tandem init`."""

import http.server
import importlib.util
import json
import threading

from router.cli import main


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


def test_init_that_finds_nothing_leaves_an_existing_file_alone(here, capsys):
    (here / "config.yaml").write_text("mine: yes\n")

    assert main(["init", "--force"]) == 1
    assert (here / "config.yaml").read_text() == "mine: yes\n"
    assert "was not changed" in capsys.readouterr().err


def test_examples_are_in_a_dialect_that_the_config_serves(here, capsys, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "y")
    assert main(["init"]) == 0

    assert main(["explain", "fix the typo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"] == ["anthropic-small"]


def test_init_with_one_key_gives_both_tiers_a_target(here, capsys, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "x")

    assert main(["init"]) == 0
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "groq-deep" in out
    assert "simulated" not in out


def test_init_skips_a_provider_whose_extra_is_missing_and_names_the_extra(here, capsys, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "litellm" else find_spec(name, *more))
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    monkeypatch.setenv("GROQ_API_KEY", "x")

    assert main(["init"]) == 0

    assert "tandem-router[litellm]" in capsys.readouterr().err
    assert "groq" in (here / "config.yaml").read_text()


def test_init_and_check_use_a_provider_behind_litellm(here, capsys, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "x")

    assert main(["init"]) == 0
    assert main(["check"]) == 0

    assert (
        "gemini/gemini-3.5-flash at litellm, key env:GEMINI_API_KEY; chat; window_tokens, price, accepts from litellm's table"
        in (capsys.readouterr().out)
    )


def test_init_without_anything_keeps_the_simulated_tiers_and_says_so(here, capsys):
    assert main(["init", "--print"]) == 0
    printed = capsys.readouterr()

    assert "simulated tiers stay" in printed.err
    assert "simulated-fast" in printed.out
    assert not (here / "config.yaml").exists()


def test_init_finds_a_local_server_and_its_model(here, capsys, monkeypatch):
    class Models(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b'{"data": [{"id": "my-local-model"}]}'
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Models)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    from router.cli import init

    text = init.default_text().replace("127.0.0.1:11434", f"127.0.0.1:{server.server_port}")
    monkeypatch.setattr(init, "default_text", lambda: text)

    try:
        assert main(["init"]) == 0
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert 'model: "my-local-model"' in (here / "config.yaml").read_text()
