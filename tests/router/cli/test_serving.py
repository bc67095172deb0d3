"""What one process does around its requests: file handles and large pages. Its start, signals and end are tested as a process of `serve`."""

import asyncio
import mmap
import os
import re
import resource
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from router.cli import serving
from router.cli.serving import PAGE_BYTES, allow_handles, find_spans, use_large_pages, welcome
from router.config.load import find_config, load_config
from router.contract.keys import KeyRing
from router.wiring.build import known_names
from tests.conftest import SIMULATED
from tests.tools.configs import load_text
from tests.tools.keyed import KEYS, Callers

MAPS = b"""\
aaaac6479000-aaaac6dd4000 rw-p 00000000 00:00 0                          [heap]
Size:               9580 kB
Rss:                9000 kB
Pss:                9000 kB
ffff70000000-ffff78000000 rw-p 00000000 00:00 0
Size:             131072 kB
Rss:                  64 kB
ffff78000000-ffff78233000 rw-p 00000000 00:00 0
Size:               2252 kB
KernelPageSize:        4 kB
Rss:                2252 kB
ffff7dc40000-ffff7dd40000 rw-p 00000000 00:00 0
Size:               1024 kB
Rss:                1024 kB
ffff7dd50000-ffff7e550000 ---p 00000000 00:00 0
Rss:                8192 kB
ffff7ef70000-ffff7f270000 rw-p 00000000 103:01 12                        /jos\xe9's folder/\xe2\x80\xa8data.bin
Rss:                3072 kB
ffff805b0000-ffff809c9000 r-xp 00000000 103:01 9                         /usr/lib/libpython3.11.so.1.0
Rss:                4196 kB
"""


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


def test_only_memory_of_ours_that_fills_large_pages_is_moved():
    assert list(find_spans(MAPS)) == [(0xAAAAC6600000, 0x600000), (0xFFFF78000000, 0x200000)]


@pytest.mark.parametrize("maps", [b"", b"no list at all\n", b"\xff\xfe"])
def test_what_is_no_such_list_moves_nothing(maps):
    assert list(find_spans(maps)) == []


def test_where_there_is_no_such_file_the_kernel_is_asked_for_nothing(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(serving.ctypes, "CDLL", asked.append)
    monkeypatch.setattr(serving, "Path", lambda _: tmp_path / "none")

    use_large_pages()

    assert asked == []


def test_a_system_without_that_call_is_left_as_it_is(monkeypatch, tmp_path):
    (tmp_path / "smaps").write_bytes(MAPS)
    asked = []
    monkeypatch.setattr(serving.ctypes, "CDLL", lambda name: asked.append(name) or object())
    monkeypatch.setattr(serving, "Path", lambda _: tmp_path / "smaps")

    use_large_pages()

    assert asked == [None]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has them")
def test_what_is_moved_stays_as_it_was():
    memory = mmap.mmap(-1, 4 * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pattern = bytes(range(256)) * (len(memory) // 256)
    memory[:] = pattern
    assert any(size >= 3 * PAGE_BYTES for _, size in find_spans(Path("/proc/self/smaps").read_bytes()))

    use_large_pages()

    assert memory[:] == pattern


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
