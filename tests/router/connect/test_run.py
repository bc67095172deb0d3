"""Starting a client pointed here."""

import os
import signal
import stat
import sys
import threading

import pytest

from router.connect.recipe import read_recipe
from router.connect.run import run_client

RECIPE = """
name = "Some client"
command = "some-client"
install = "somehow"
choose = "x"
[[files]]
path = "~/x.json"
format = "json"
run_as = "x.json"
values = '{"url": "{{url}}"}'
[run]
arguments = ["--settings", "{{folder}}/x.json"]
[run.environment]
SOME_URL = "{{url}}"
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Put a client on the PATH, a Python script; answers its recipe."""

    def make(script: str):
        program = tmp_path / "some-client"
        program.write_text(f"#!{sys.executable}\nimport json, os, signal, sys\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path))
        return read_recipe("some", RECIPE)

    return make


def test_the_client_gets_arguments_environment_and_files_and_its_status_is_ours(client, tmp_path):
    script = f"""
told = [json.load(open(sys.argv[2])), os.environ["SOME_URL"], sys.argv[3:], sys.argv[2]]
json.dump(told, open({str(tmp_path / "told")!r}, "w"))
sys.exit(7)"""

    assert run_client(client(script), {"url": "http://u"}, ["-p", "a b"]) == 7

    settings, url, given, path = __import__("json").loads((tmp_path / "told").read_text())
    assert (settings, url, given) == ({"url": "http://u"}, "http://u", ["-p", "a b"])
    assert not os.path.exists(path)


def test_a_client_that_a_signal_ended_has_the_status_that_a_shell_tells(client, heard_signals):
    assert run_client(client("os.kill(os.getpid(), signal.SIGTERM)"), {"url": "u"}, []) == 128 + signal.SIGTERM


def test_an_interrupt_is_the_clients_to_heed(client):
    script = "os.kill(os.getppid(), signal.SIGINT); sys.exit(3 if signal.getsignal(signal.SIGINT) is signal.default_int_handler else 4)"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert run_client(client(script), {"url": "u"}, []) == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_client_can_be_started_outside_the_main_thread(client):
    recipe, codes = client("sys.exit(5)"), []
    thread = threading.Thread(target=lambda: codes.append(run_client(recipe, {"url": "u"}, [])))
    thread.start()
    thread.join(20)

    assert codes == [5]


def test_a_client_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(FileNotFoundError):
        run_client(read_recipe("some", RECIPE), {"url": "u"}, [])
