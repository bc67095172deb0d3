"""`tandem reload`."""

import json
import time

from router.cli import main
from router.cli.routers import Router, all_routers, note_router
from tests.conftest import SIMULATED
from tests.tools.serve import serving

CHANGED = SIMULATED.replace("window_tokens: 400000", "window_tokens: 200000")


def test_what_changed_is_printed_and_every_fault_of_a_config_that_is_refused(here, capsys):
    config = here / "config.yaml"
    config.write_text(SIMULATED)
    with serving(here) as url:
        config.write_text(CHANGED + "server: {port: 4001}\n")
        assert main(["reload"]) == 0
        done = capsys.readouterr().out

        config.write_text("server: {prot: 1}\n")
        assert main(["reload"]) == 1
        refused = capsys.readouterr().err

        config.write_text(CHANGED)
        assert main(["reload", "--url", url, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)

    assert f"reloaded {url}: config " in done
    assert "  changed: tiers.deep (simulated-deep)\n" in done
    assert "  needs a restart, and stays as before until then: server.port\n" in done
    assert "changed nothing" in refused
    assert "server.prot: no such setting" in refused
    assert "tiers: needs fast and deep" in refused
    assert (told["changed"], told["needs_restart"]) == ([], [])


def test_a_router_with_keys_and_without_a_ledger_is_found_and_its_key_is_gone_with_it(here, capsys):
    (here / "keys.yaml").write_text("callers: {}\n")
    (here / "keys.yaml").chmod(0o600)
    (here / "config.yaml").write_text(f"keys: {{file: keys.yaml}}\n{SIMULATED}")
    with serving(here, "--no-ledger") as url:
        assert main(["reload"]) == 0
        (router,) = all_routers()
        (record,) = (here / "home" / "state" / "tandem" / "routers").iterdir()
        mode = record.stat().st_mode & 0o777

    assert (router.url, router.config, mode) == (url, here / "config.yaml", 0o600)
    assert router.key.startswith("tdm_00000000_")
    assert router.key not in repr(router)
    assert "nothing changed" in capsys.readouterr().out
    assert all_routers() == []


def test_the_key_of_a_router_that_ended_is_forgotten_and_its_ledger_is_not(here):
    (here / "keys.yaml").write_text("callers: {}\n")
    (here / "keys.yaml").chmod(0o600)
    (here / "config.yaml").write_text(f"keys: {{file: keys.yaml}}\n{SIMULATED}")
    with serving(here):
        (running,) = all_routers()

    (ended,) = all_routers()
    assert running.key
    assert (ended.key, ended.ledger) == ("", here / "test.db")


def test_without_a_router_it_says_how_to_start_one(here, capsys):
    assert main(["reload"]) == 1
    assert "no router is running\n  hint: tandem serve starts one" in capsys.readouterr().err

    (here / "work.yaml").write_text(SIMULATED)
    assert main(["reload", "--config", "work.yaml"]) == 1
    assert f"no router is running with {here / 'work.yaml'}\n  hint: tandem serve --config work.yaml" in capsys.readouterr().err


def test_a_router_that_no_longer_answers_is_said(here, capsys):
    assert main(["reload", "--url", "http://127.0.0.1:1"]) == 1

    assert "no router answers at http://127.0.0.1:1" in capsys.readouterr().err


def test_of_several_routers_with_other_configs_none_is_chosen(here, capsys, monkeypatch):
    monkeypatch.setattr(Router, "is_running", lambda _: True)
    for port in (1, 2):
        note_router(Router(f"http://127.0.0.1:{port}", None, time.time()))
    (here / "config.yaml").write_text(SIMULATED)

    assert main(["reload"]) == 1

    said = capsys.readouterr().err
    assert "several routers are running" in said
    assert "--url" in said
