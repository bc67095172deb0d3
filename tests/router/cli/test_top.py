"""`tandem top`, against a scripted feed."""

import json
import signal
import subprocess
import sys

import pytest

from router.cli import main
from tests.tools.feed_server import batch, event, make_hello, make_row, serving_feed
from tests.tools.terminal import run_in_terminal

TOP = [sys.executable, "-m", "router.cli", "top"]
NOTICE = {"kind": "key_refused", "subject": "spark", "since": 900.0, "text": "spark: its host refuses the API key", "hint": "x"}
pytestmark = pytest.mark.usefixtures("heard_signals")
HELLO = event("hello", make_hello(notices=[NOTICE]))


def test_turns_and_what_is_broken_are_drawn_and_ctrl_c_ends_it_cleanly(tmp_path):
    with serving_feed([HELLO, batch(make_row("a"))]) as feed, run_in_terminal([*TOP, "--url", feed.url], tmp_path) as terminal:
        lines = terminal.wait_for(
            lambda lines: any("FAST" in line for line in lines) and any("refuses" in line for line in lines)
        )
        terminal.type(b"\x03")
        terminal.finish()

        assert [line.split()[0] for line in lines if "refuses" in line] == ["!"]
        assert terminal.process.wait(30) == 0
        assert terminal.screen.strange == []
        assert feed.feeds == ["/tandem/feed?after=0"]


def test_after_a_lost_connection_it_goes_on_by_itself(tmp_path):
    scripts = [HELLO, batch(make_row("a"), number=7)], [HELLO, batch(make_row("b", session="t-2"), number=8)]
    with serving_feed(*scripts) as feed, run_in_terminal([*TOP, "--url", feed.url], tmp_path) as terminal:
        terminal.wait_for(lambda lines: sum("FAST" in line for line in lines) == 2)

        assert feed.feeds == ["/tandem/feed?after=0", "/tandem/feed?after=7"]


def test_json_prints_each_row_on_a_line_and_sends_the_key(tmp_path):
    with serving_feed([HELLO, batch(make_row("a"), make_row("b"))]) as feed:
        command = [*TOP, "--url", feed.url, "--key-env", "OWN", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, env={"OWN": "tdm_1", "HOME": str(tmp_path)})
        rows = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

        assert [row["id"] for row in rows] == ["a", "b"]
        assert process.returncode == 0
        assert feed.asked == [("/tandem/feed", "Bearer tdm_1")]


def test_without_a_terminal_each_turn_is_a_line(tmp_path):
    rows = [make_row("a", at=0.0), make_row("b", at=0.0)]
    with serving_feed([HELLO, batch(*rows)]) as feed:
        process = subprocess.Popen([*TOP, "--url", feed.url], stdout=subprocess.PIPE, cwd=tmp_path, text=True)
        lines = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

        assert sum("FAST" in line for line in lines) == 2
        assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(("status", "words"), [(401, "--key-env"), (404, "page: on"), (403, "status 403")])
def test_a_router_that_refuses_is_named_with_what_helps(status, words, capsys, here):
    with serving_feed(status) as feed:
        assert main(["top", "--json", "--url", feed.url]) == 1

    assert words in capsys.readouterr().err


def test_where_no_router_answers_it_says_so(capsys, here):
    assert main(["top", "--json", "--url", "http://127.0.0.1:9"]) == 1
    assert "no router answers at http://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--url", "tandem.example"], "http://"), (["--key-env", "UNSET_1"], "UNSET_1 is not set")]
)
def test_wrong_arguments_are_refused(arguments, words, capsys, here):
    assert main(["top", *arguments]) == 2
    assert words in capsys.readouterr().err
