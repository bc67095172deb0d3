"""Ledgers are found from any folder, by what routers left in the state folder."""

import asyncio
import io
import socket
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from router.cli import main
from router.cli.routers import (
    Router,
    all_routers,
    find_at,
    find_router,
    is_listening,
    is_tandem,
    known_routers,
    leave_router,
    note_router,
    url_of,
)
from tests.conftest import SIMULATED
from tests.tools.certificates import TLS, write_pair
from tests.tools.ledgers import write_ledger

DEAD = "http://127.0.0.1:1"


def note(url: str, ledger: Path | None, **more) -> None:
    note_router(Router(url, ledger, time.time(), **more))


@pytest.fixture
def url():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def elsewhere(folder, monkeypatch):
    """A ledger in the router's folder; the person stands in a project."""
    (folder / "router").mkdir()
    (folder / "project").mkdir()
    monkeypatch.chdir(folder / "project")
    return write_ledger(folder / "router" / "tandem.db", {"session": "s", "because": "looks like a quick edit: fix"})


def test_a_router_that_runs_comes_before_one_that_started_later_and_ended(elsewhere, folder, url):
    later = write_ledger(folder / "later.db", {})
    note(url, elsewhere)
    note(DEAD, later)

    assert find_router().ledger == elsewhere
    assert find_router(DEAD).ledger == later
    assert find_router("http://127.0.0.1:2") is None


def test_of_routers_that_ended_the_last_counts_as_long_as_its_ledger_is_there(elsewhere, folder):
    later = write_ledger(folder / "later.db", {})
    note(DEAD, elsewhere)
    note(DEAD, later)
    assert find_router().ledger == later

    later.unlink()

    assert find_router().ledger == elsewhere


def test_records_are_their_owners_alone_and_those_of_lost_ledgers_are_swept(elsewhere, folder):
    lost = write_ledger(folder / "lost.db", {})
    note(DEAD, lost)
    lost.unlink()
    note(DEAD, elsewhere)

    (record,) = (folder / "home" / "state" / "tandem" / "routers").iterdir()
    assert (record.stat().st_mode & 0o777, record.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"url": 1, "ledger": null, "started_at": "x"}', "\xff"])
def test_a_record_that_cannot_be_read_counts_for_nothing(elsewhere, folder, content):
    note(DEAD, elsewhere)
    (folder / "home" / "state" / "tandem" / "routers" / "x.json").write_bytes(content.encode("latin-1"))

    assert [router.ledger for router in known_routers()] == [elsewhere]


def test_a_state_folder_that_cannot_be_written_to_is_no_error(elsewhere, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")

    note(DEAD, elsewhere)

    assert known_routers() == []


@pytest.mark.parametrize("command", [["log"], ["log", "--sessions"], ["stats"], ["wrong"], ["log", "--json"]])
def test_a_command_that_looks_back_finds_the_ledger_from_a_project_and_says_which(elsewhere, capsys, command):
    note(DEAD, elsewhere)

    assert main(command) == 0

    assert f"reading {elsewhere}, of the router at {DEAD}" in capsys.readouterr().err


def test_a_config_of_the_projects_own_program_does_not_hide_the_ledger(elsewhere, capsys):
    Path("config.yaml").write_text("database: {host: localhost}\n")
    note(DEAD, elsewhere)

    assert main(["log"]) == 0


def test_a_ledger_of_the_config_in_this_folder_comes_first(elsewhere, url, capsys):
    Path("config.yaml").write_text(SIMULATED)
    write_ledger(Path("test.db"), {"because": "looks like a long task: here"})
    note(url, elsewhere)

    assert main(["log"]) == 0

    told = capsys.readouterr()
    assert "here" in told.out
    assert "reading" not in told.err


def test_a_config_that_is_named_is_believed(elsewhere, capsys):
    Path("other.yaml").write_text(SIMULATED)
    note(DEAD, elsewhere)

    assert main(["log", "--config", "other.yaml"]) == 1

    assert "test.db: there is no ledger yet" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--ledger", "wrong.db"]])
def test_the_status_line_finds_the_ledger_of_the_router_at_its_address(elsewhere, url, monkeypatch, capsys, arguments):
    note(url, elsewhere)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    assert main(["statusline", "--url", url, *arguments]) == 0

    assert capsys.readouterr().out == "tandem: running, no turn yet\n"


def test_a_router_without_a_ledger_is_found_at_its_address_alone(elsewhere, url):
    note(url, None, key="tdm_00000000_x")

    assert find_at(f"{url}/v1").key == "tdm_00000000_x"
    assert known_routers() == []


def test_of_two_routers_at_one_address_the_one_that_started_last_is_meant(elsewhere, url):
    note(url, elsewhere, key="old")
    note(url, None, key="new")

    assert find_at(url).key == "new"


def test_a_router_that_ends_leaves_the_record_of_a_later_one_alone(elsewhere):
    first, second = Router(DEAD, elsewhere, 1.0, key="old"), Router(DEAD, elsewhere, 2.0, key="new")
    note_router(first)
    note_router(second)

    leave_router(first)

    assert [router.key for router in all_routers()] == ["new"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:4000"),
        ("::1", "http://[::1]:4000"),
        ("0.0.0.0", "http://127.0.0.1:4000"),
        ("::", "http://[::1]:4000"),
    ],
)
def test_an_address_is_written_as_a_url_wants_it(host, url):
    assert url_of(host, 4000) == url
    assert url_of(host, 4000, is_tls=True) == url.replace("http:", "https:")


def test_somebody_listens_or_nobody_does():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        url = url_of(*server.getsockname())
        assert is_listening(url)

    assert not is_listening(url)
    assert not is_listening("http://127.0.0.1:x")


async def test_a_router_is_told_from_another_server(simulated):
    other = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)

    async with other:
        assert await asyncio.to_thread(is_tandem, url_of("127.0.0.1", simulated.port), 60.0)
        assert not await asyncio.to_thread(is_tandem, url_of(*other.sockets[0].getsockname()))


async def test_a_router_is_found_over_tls_whoever_signed_its_certificate(start, tmp_path):
    write_pair(tmp_path)
    tandem = await start(SIMULATED + TLS)

    assert await asyncio.to_thread(is_tandem, tandem.url, 60.0)
    assert not await asyncio.to_thread(is_tandem, tandem.url.replace("https:", "http:"))
