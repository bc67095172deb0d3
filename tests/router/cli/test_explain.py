"""`tandem explain`: the words, the client that would send them, and the turns before them."""

import io
import json

import pytest

from router.cli import main
from tests.conftest import SIMULATED
from tests.tools.ledgers import write_ledger
from tests.tools.running import one_dialect

LONG = "Implement the whole parser from scratch, with tests and docs"


@pytest.fixture
def here(folder):
    (folder / "config.yaml").write_text(SIMULATED)
    return folder


@pytest.fixture
def explain(here, capsys):
    """The decision on some arguments, as a program gets it."""

    def explain_it(*arguments: str) -> dict:
        assert main(["explain", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return explain_it


def test_words_need_no_quotes(explain):
    assert explain("fix", "the", "typo", "in", "it")["person_text"] == "fix the typo in it"


def piped(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="strict")


@pytest.mark.parametrize(
    ("sent", "text"),
    [(b"fix the typo\nin the second line\n", "fix the typo\nin the second line"), (b"fix it \xff", "fix it \ufffd")],
)
def test_words_can_be_piped_in_and_bytes_that_are_no_text_are_replaced(explain, monkeypatch, sent, text):
    monkeypatch.setattr("sys.stdin", piped(sent))

    assert explain("-")["person_text"] == text


def test_nothing_piped_in_is_no_text(here, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", piped(b" \n"))

    assert main(["explain", "-"]) == 2
    assert "give a text" in capsys.readouterr().err


def test_half_a_character_is_replaced_and_not_stumbled_over(explain):
    assert explain("fix \udcff it")["person_text"] == "fix ? it"


@pytest.mark.parametrize(
    ("given", "client"),
    [("codex", "codex"), ("claude-code", "claude-code"), ("claude", "claude-code"), ("qwen", "qwen-code"), ("aider", "aider")],
)
def test_the_words_are_read_as_a_client_would_send_them(explain, given, client):
    decision = explain("fix the typo", "--as", given)

    assert (decision["client"], decision["person_text"], decision["turn_kind"]) == (client, "fix the typo", "ask")


def test_a_client_that_nobody_knows_is_refused_with_those_that_are_known(here, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["explain", "x", "--as", "telepathy"])

    assert caught.value.code == 2
    assert "claude-code" in capsys.readouterr().err


def test_a_go_on_is_what_was_asked_for_before_it(explain):
    after_long, after_quick = explain("go on", "--after", LONG), explain("go on", "--after", "fix the typo")

    assert after_long["turn_kind"] == after_quick["turn_kind"] == "follow_up"
    assert after_quick["score"] < after_long["score"]


def test_what_comes_before_may_be_several_turns_in_their_order(explain):
    lately_long = explain("go on", "--after", "fix the typo", "--after", LONG)
    lately_quick = explain("go on", "--after", LONG, "--after", "fix the typo")

    assert lately_quick["score"] < lately_long["score"]


def test_a_request_header_counts_with_a_client_too(explain):
    assert explain("fix the typo", "--as", "codex", "--header", "x-tandem-tier: deep")["tier"] == "deep"


@pytest.mark.parametrize("more", [["--as", "codex"], ["--after", "x"]])
def test_a_whole_request_has_its_own_client_and_turns(here, capsys, more):
    (here / "request.json").write_text(json.dumps({"model": "auto", "input": "fix the typo"}))

    assert main(["explain", "--request", "request.json", *more]) == 2
    assert "without --as and --after" in capsys.readouterr().err


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
def test_a_client_can_be_tried_with_targets_of_any_dialect(here, explain, dialect):
    (here / "config.yaml").write_text(one_dialect(dialect, "http://127.0.0.1:1"))

    assert explain("fix the typo", "--as", "claude")["targets"] == ["quick"]


@pytest.mark.parametrize(("client", "tier"), [("codex", "fast"), ("claude", "deep")])
def test_a_rule_of_the_config_counts_where_all_its_conditions_hold(here, explain, client, tier):
    (here / "config.yaml").write_text(f"{SIMULATED}rules: [{{when: {{words: parser, client: codex}}, tier: fast}}]\n")

    assert explain(LONG, "--as", client)["tier"] == tier


def test_what_the_ledger_shows_of_a_target_is_counted_in_and_said(here, capsys):
    turns = [{"session": f"s{number}", "target": "simulated-fast", "output_tokens": 4_000} for number in range(60)]
    write_ledger(here / "test.db", *turns)

    assert main(["explain", "fix the typo"]) == 0

    (fast,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  fast "))
    assert "its turns take" in fast
    assert "times the expected output" in fast


def test_explaining_makes_no_ledger(here, explain):
    explain("fix the typo", "--as", "codex", "--after", "x")

    assert {path.name for path in here.iterdir()} == {"config.yaml"}


def test_explain_is_readable_and_as_json(here, capsys):
    assert main(["explain", "fix the typo"]) == 0
    readable = capsys.readouterr().out
    assert main(["explain", "fix the typo", "--json"]) == 0
    decision = json.loads(capsys.readouterr().out)

    assert readable.startswith("fast  ")
    assert "would flip" in readable
    assert decision["tier"] == "fast"
    assert decision["person_text"] == "fix the typo"


def test_explain_says_what_a_request_would_lose_on_its_way(here, capsys):
    (here / "config.yaml").write_text(one_dialect("messages", "http://127.0.0.1:1"))
    request = {"model": "fast", "messages": [{"role": "user", "content": "fix the typo"}], "seed": 7, "logprobs": True}
    (here / "request.json").write_text(json.dumps(request))

    assert main(["explain", "--request", "request.json", "--dialect", "chat"]) == 0
    assert "drops       seed, logprobs (quick)" in capsys.readouterr().out


def test_explain_reads_a_file_and_headers(here, capsys):
    (here / "request.json").write_text(json.dumps({"model": "auto", "input": "fix the typo"}))

    assert main(["explain", "--request", "request.json", "--header", "x-tandem-tier: deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tier"] == "deep"


def test_it_says_how_large_it_took_the_turns_before_to_be(here, capsys):
    assert main(["explain", "thanks", "--after", "fix the typo", "--after", LONG]) == 0

    assert "assumed     before: 2 calls (1 edit) on fast, 26 calls (8 edits) on deep" in capsys.readouterr().out


def test_nothing_is_assumed_where_nothing_came_before(here, capsys):
    assert main(["explain", "fix the typo", "--as", "codex"]) == 0

    assert "assumed     before" not in capsys.readouterr().out


@pytest.mark.parametrize(("calls", "sizes"), [(["7"], [7, 7]), (["1", "30"], [1, 30])])
def test_calls_are_chosen_for_all_turns_or_for_each(explain, calls, sizes):
    chosen = [argument for count in calls for argument in ("--calls", count)]

    before = explain("go on", "--after", "fix the typo", "--after", LONG, *chosen)["assumed_before"]

    assert [turn["calls"] for turn in before] == sizes


@pytest.mark.parametrize(
    "arguments", [["x", "--calls", "3"], ["x", "--after", "a", "--after", "b", "--after", "c", *["--calls", "1"] * 2]]
)
def test_calls_without_turns_to_belong_to_are_refused(here, capsys, arguments):
    assert main(["explain", *arguments]) == 2
    assert "--calls needs --after" in capsys.readouterr().err


def test_a_turn_that_asks_for_a_plan_is_taken_to_change_no_file(explain):
    (turn,) = explain("yes", "--after", "how would you restructure the config system? plan only, no code")["assumed_before"]

    assert (turn["calls"], turn["edits"]) == (2, 0)


def test_a_client_without_tools_made_no_calls(explain):
    (turn,) = explain("go on", "--as", "aider", "--after", LONG)["assumed_before"]

    assert (turn["calls"], turn["edits"]) == (0, 0)
