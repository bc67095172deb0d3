"""What one process does around its requests: file handles and words. Its start, signals and end are tested as a process of `serve`."""

import asyncio
import os
import re
import resource
import shutil
from dataclasses import replace

import pytest

from router.cli.serving import allow_handles, welcome
from router.config.load import find_config, load_config
from router.contract.keys import KeyRing
from router.wiring.build import known_names
from tests.conftest import SIMULATED
from tests.tools.configs import load_text
from tests.tools.keyed import KEYS, Callers


@pytest.fixture
def limits(monkeypatch):
    now = [(256, 10_000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: now.append(pair))
    return now


def test_the_limit_is_raised_to_two_handles_for_each_request_and_one_for_each_socket(limits):
    assert allow_handles(1_024, 1_000) == 2 * 1_024 + 1_000 + 200
    assert limits[-1][1] == 10_000


@pytest.mark.parametrize("pair", [(256, 1_000), (256, resource.RLIM_INFINITY)])
def test_it_is_raised_no_further_than_it_may_be(limits, pair):
    limits.append(pair)

    assert allow_handles(1_024, 0) == (1_000 if pair[1] == 1_000 else 2_248)


@pytest.mark.parametrize("soft", [20_000, resource.RLIM_INFINITY])
def test_a_limit_that_is_high_enough_is_left_alone(limits, soft):
    limits.append((soft, resource.RLIM_INFINITY))

    assert allow_handles(1_024, 1_000) == soft
    assert len(limits) == 2


def test_a_system_that_refuses_is_no_error(limits, monkeypatch):
    def refuse(*_):
        raise ValueError

    monkeypatch.setattr(resource, "setrlimit", refuse)

    assert allow_handles(1_024, 0) == 256


@pytest.mark.parametrize("has_file", [True, False])
def test_force_is_named_only_where_there_is_a_file_to_overwrite(here, has_file):
    if has_file:
        (here / "config.yaml").write_text(SIMULATED)
    loaded = load_config(find_config(None), known_names())

    assert ("init --force`" in welcome(loaded, "http://x")) is has_file


def test_the_page_is_named_at_the_start_unless_it_is_off(here):
    shown, off = (load_text(SIMULATED + extra) for extra in ("", "page: false\n"))

    assert "Page        http://x/\n" in welcome(shown, "http://x")
    assert "Page" not in welcome(off, "http://x")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_examples_of_the_start_are_answered_with_the_key_that_they_name(start, tmp_path):
    callers = Callers(tmp_path, ada={})
    tandem = await start(SIMULATED + KEYS)
    key = callers["ada"]["authorization"].removeprefix("Bearer ")
    examples = re.findall(r"curl .*", welcome(tandem.loaded, tandem.url))

    for example in examples:
        shell = await asyncio.create_subprocess_shell(
            example, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env={**os.environ, "TANDEM_KEY": key}
        )
        out, _ = await shell.communicate()
        assert out.startswith(b"HTTP/1.1 200"), out

    assert len(examples) == 2
    assert "export TANDEM_KEY=tdm_… " in welcome(tandem.loaded, tandem.url)
    assert key not in welcome(tandem.loaded, tandem.url)


def test_where_keys_are_needed_the_first_requests_have_one_and_the_page_is_named(here):
    (here / "config.yaml").write_text(SIMULATED)
    loaded = load_config(find_config(None), known_names())
    keyed = replace(loaded, keys=KeyRing((), {}))

    assert "Bearer" not in welcome(loaded, "http://x")
    assert welcome(keyed, "http://x").count(' -H "authorization: Bearer $TANDEM_KEY"') == 2
    assert "keys add NAME" in welcome(keyed, "http://x")
    assert "Page        http://x/\n" in welcome(loaded, "http://x")
