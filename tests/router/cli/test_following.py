"""`tandem log --follow`, against a scripted feed."""

import json
import signal
import subprocess
import sys

import pytest

from router.cli import main
from tests.tools.feed_server import batch, event, make_begun, make_hello, make_row, serving_feed

FOLLOW = [sys.executable, "-m", "router.cli", "log", "--follow"]
HELLO = event("hello", make_hello())
pytestmark = pytest.mark.usefixtures("heard_signals")


def read_lines(folder, count: int, *arguments: str) -> list[str]:
    """The first lines that it prints. Ctrl-C ends it with 0."""
    environment = {"OWN": "tdm_1", "HOME": str(folder)}
    process = subprocess.Popen([*FOLLOW, *arguments], stdout=subprocess.PIPE, cwd=folder, env=environment, text=True)
    lines = [process.stdout.readline() for _ in range(count)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0
    return lines


def test_each_finished_turn_is_a_line_as_in_the_log(tmp_path):
    rows = [make_row("a"), make_row("b", turn_kind="tool_loop"), make_row("c"), make_row("d")]
    with serving_feed([HELLO, batch(*rows, begun=[make_begun("a")])]) as feed:
        title, first, second = read_lines(tmp_path, 3, "--url", feed.url)

    assert title.split()[:4] == ["time", "client", "turn", "tier"]
    assert [line.split()[3:6] for line in (first, second)] == [["1", "FAST", "2"], ["2", "FAST", "1"]]
    assert [path for path, _ in feed.asked] == ["/tandem/feed"]


def test_json_has_an_object_for_each_turn_and_the_key_is_sent(tmp_path):
    rows = [make_row("a"), make_row("b", session="t", caller="bob"), make_row("c", session="t", caller="bob"), make_row("d")]
    with serving_feed([HELLO, batch(*rows)]) as feed:
        told = [json.loads(line) for line in read_lines(tmp_path, 2, "--url", feed.url, "--key-env", "OWN", "--json")]
        (only,) = map(json.loads, read_lines(tmp_path, 1, "--url", feed.url, "--json", "--caller", "bob"))

    assert [(turn["id"], turn["tier"], turn["calls"]) for turn in told] == [("a", "fast", 1), ("b", "fast", 1)]
    assert only["id"] == "b"
    assert feed.asked[0] == ("/tandem/feed", "Bearer tdm_1")


def test_after_a_lost_connection_it_goes_on_and_shows_nothing_twice(tmp_path):
    scripts = [HELLO, batch(make_row("a"), number=7)], [HELLO, batch(make_row("a"), make_row("b"), make_row("c"), number=9)]
    with serving_feed(*scripts) as feed:
        told = [json.loads(line)["id"] for line in read_lines(tmp_path, 2, "--url", feed.url, "--json")]

    assert told == ["a", "b"]
    assert [path for path, _ in feed.asked] == ["/tandem/feed", "/tandem/feed?after=7"]


@pytest.mark.parametrize(("status", "words"), [(401, "--key-env"), (404, "page: on"), (403, "status 403")])
def test_a_router_that_refuses_is_named_with_what_helps(status, words, capsys, here):
    with serving_feed(status) as feed:
        assert main(["log", "--follow", "--url", feed.url]) == 1

    assert words in capsys.readouterr().err


def test_where_no_router_answers_it_says_so(capsys, here):
    assert main(["log", "--follow", "--url", "http://127.0.0.1:9"]) == 1
    assert "no router answers at http://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "tandem.example"], "http://"),
        (["--url", "http://x", "--key-env", "UNSET_1"], "UNSET_1 is not set"),
        (["--sessions"], "without --sessions"),
        (["-n", "3"], "without --sessions"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words, capsys, here):
    assert main(["log", "--follow", *arguments]) == 2
    assert words in capsys.readouterr().err
