"""Which router a command asks."""

import time

import pytest

from router.cli import Ended
from router.cli.reaching import find_url, read_own_key
from router.cli.routers import Router, note_router
from tests.tools.jobs_server import serving_jobs


@pytest.mark.parametrize("named", ["http://a:1", "http://a:1/", "http://a:1/v1"])
def test_a_named_address_is_taken_without_its_path(named, folder):
    assert find_url(named) == "http://a:1"


def test_the_router_that_runs_here_is_asked_and_the_newest_of_several_with_a_word(folder, capsys):
    with serving_jobs() as first, serving_jobs() as second:
        note_router(Router(first.url, None, time.time()))
        assert find_url(None) == first.url
        note_router(Router(second.url, None, time.time() + 1))
        assert capsys.readouterr().err == ""

        assert find_url(None) == second.url

    assert f"asking {second.url}; --url names another: {first.url}" in capsys.readouterr().err


def test_a_router_that_is_remembered_twice_is_one(folder, capsys):
    (folder / "a.db").touch()
    with serving_jobs() as server:
        note_router(Router(server.url, None, time.time()))
        note_router(Router(server.url, folder / "a.db", time.time()))

        assert find_url(None) == server.url

    assert capsys.readouterr().err == ""


def test_without_a_router_the_usual_address_is_asked(folder):
    assert find_url(None) == "http://127.0.0.1:4000"


def test_a_key_is_read_from_its_variable(monkeypatch):
    monkeypatch.setenv("OWN", " tdm_1 ")

    assert read_own_key("OWN") == "tdm_1"
    assert read_own_key(None) == ""
    with pytest.raises(Ended, match="UNSET_1 is not set"):
        read_own_key("UNSET_1")
