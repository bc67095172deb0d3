"""What a plain `tandem serve` loads: each module takes a part of a millisecond and about 30 kB in every process."""

import json
import re
import subprocess
import sys
import urllib.request

import pytest

from tests.conftest import SIMULATED
from tests.tools.quick import starts

PROBES = ("/healthz", "/readyz", "/api/hello")
MOST_MODULES = 745
OPTIONAL = (
    "fastapi",
    "starlette",
    "websockets",
    "prometheus_client",
    "tiktoken",
    "litellm",
    "adapters.litellm",
    "adapters.anthropic_http",
    "router.dialects.translate.bridges",
    "router.edge.control.app",
    "router.edge.websocket.connection",
    "router.jobs.runner",
    "router.cli.turn_log",
    "router.look.looking",
    "router.page",
    "router.stores.postgres",
    "router.stores.valkey",
    "router.upstream.websocket.call",
)
FOR_PROBES = "uvicorn"
"""Serves whatever is not a create call."""


@pytest.fixture(scope="module")
@starts
def loaded(tmp_path_factory) -> tuple[list[str], list[str]]:
    """The modules that a router without options loads until it is ready, and then until it has answered every probe."""
    here = tmp_path_factory.mktemp("start")
    (here / "config.yaml").write_text(SIMULATED)
    command = [sys.executable, "-X", "importtime", "-m", "router.cli", "serve", "--port", "0", "--log", "json"]
    server = subprocess.Popen(command, cwd=here, stderr=subprocess.PIPE, text=True)
    lines = []
    while not (line := server.stderr.readline()).startswith("{"):
        lines.append(line)
    for probe in PROBES:
        urllib.request.urlopen(json.loads(line)["url"] + probe).close()
    server.terminate()
    return find_names("".join(lines)), find_names(server.communicate(timeout=20)[1])


def find_names(lines: str) -> list[str]:
    return re.findall(r"^import time: .*\| +([\w.]+)$", lines, re.MULTILINE)


def test_a_plain_serve_and_its_probes_load_no_part_that_only_some_configs_and_requests_need(loaded):
    at_start, later = loaded

    assert "router.edge.server" in at_start
    assert FOR_PROBES not in at_start
    assert FOR_PROBES in later
    assert [name for name in OPTIONAL if name in at_start + later] == []


def test_a_plain_serve_loads_few_modules(loaded):
    at_start, _ = loaded

    assert len(at_start) <= MOST_MODULES
