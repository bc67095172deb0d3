"""`tandem run`, as a process of its own."""

import json
import os
import signal
import subprocess
import sys

import pytest

from router.cli import main
from tests.conftest import SIMULATED
from tests.tools.keyed import KEYS, write_keys

ASK = """
import json, os, sys, urllib.request
body = {"model": "auto", "messages": [{"role": "user", "content": "fix the typo"}]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
                                 {"content-type": "application/json", "x-api-key": os.environ["OPENAI_API_KEY"]})
told = json.load(urllib.request.urlopen(request))
print(json.dumps([told["choices"][0]["message"]["content"], os.environ["ANTHROPIC_BASE_URL"], os.environ["OPENAI_API_KEY"]]))
sys.exit(7)
"""


@pytest.fixture
def here(here):
    (here / "config.yaml").write_text(SIMULATED)
    return here


def run_tandem(folder, *command: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "router.cli", "run", "--", *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_command_is_served_on_a_free_port_and_its_status_is_ours(here):
    done = run_tandem(here, sys.executable, "-c", ASK, OPENAI_API_KEY="mine")

    said, url, key = json.loads(done.stdout)
    assert done.returncode == 7, done.stderr
    assert "simulated fast tier" in said
    assert url.startswith("http://127.0.0.1:")
    assert not url.endswith(":4000")
    assert key == "mine"
    assert done.stderr.splitlines()[-1].startswith("tandem: 1 turn, 1 fast")


def test_where_callers_need_a_key_the_command_has_the_routers_own(here):
    write_keys(here, ada="")
    (here / "config.yaml").write_text(KEYS + SIMULATED)

    done = run_tandem(here, sys.executable, "-c", ASK, OPENAI_API_KEY="mine")

    said, _, key = json.loads(done.stdout)
    assert "simulated fast tier" in said
    assert key.startswith("tdm_00000000_")
    assert key not in done.stderr


def test_a_known_client_is_pointed_by_its_own_recipe(here, tmp_path):
    (tmp_path / "llm").write_text('#!/bin/sh\ncat "$LLM_USER_PATH/extra-openai-models.yaml"; echo "$@"\n')
    (tmp_path / "llm").chmod(0o755)

    done = run_tandem(here, "llm", "-m", "tandem", "hi", PATH=f"{tmp_path}:{os.environ['PATH']}")

    assert done.returncode == 0, done.stderr
    assert "api_base: http://127.0.0.1:" in done.stdout
    assert done.stdout.splitlines()[-1] == "-m tandem hi"


def test_a_command_that_a_signal_ends_is_reported_as_a_shell_does(here):
    done = run_tandem(here, "sh", "-c", "kill -TERM $$")

    assert done.returncode == 128 + signal.SIGTERM


def test_a_stop_is_passed_on_to_the_command(here):
    script = "trap 'echo stopped; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    command = [sys.executable, "-m", "router.cli", "run", "--", "sh", "-c", script]
    process = subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "ready\n"

    process.send_signal(signal.SIGTERM)

    assert process.communicate(timeout=30)[0] == "stopped\n"
    assert process.returncode == 3


def test_what_cannot_be_run_is_said(here, capsys):
    assert main(["run"]) == 2
    assert main(["run", "--", "no-such-command-here"]) == 127
    assert "no-such-command-here: command not found" in capsys.readouterr().err
