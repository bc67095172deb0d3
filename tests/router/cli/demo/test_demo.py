"""`tandem demo`: what it claims is what the ledgers hold, and it leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys

import pytest

from router.cli import main
from router.cli.demo import ALWAYS_DEEP, LEDGER, RUNS, TANDEM, Played
from router.cli.demo.afternoon import AFTERNOON
from router.cli.figures import duration
from router.past.turns import Turn
from tests.tools.running import read_entries

TYPED = [turn.words for conversation in AFTERNOON for turn in conversation]
SPILL, RESCUE, REDIRECT = "update the copyright year in docs/conf.py", "fix the off-by-one in paginate()", "no, just rename"


@pytest.fixture
def rows(played_demo) -> dict[str, list[dict]]:
    return {name: read_entries(played_demo.folder / name / LEDGER) for name in RUNS}


def turn_of(played_demo, words: str) -> Turn:
    return next(turn for turn, typed in zip(played_demo.runs[TANDEM].turns, TYPED, strict=True) if typed.startswith(words))


@pytest.mark.parametrize("name", list(RUNS))
def test_the_sums_are_those_of_the_rows(played_demo, rows, name):
    played = played_demo.runs[name]

    asks = [index for index, row in enumerate(rows[name]) if row["turn_kind"] == "ask" and row["status"] == 200]
    assert len(played.turns) == len(TYPED) == len(asks)
    assert played.requests == len(rows[name])
    took = 0.0
    for session in {row["session"] for row in rows[name]}:
        own = [row for row in rows[name] if row["session"] == session]
        for turn in (turn for turn in played.turns if turn.session == session):
            calls, own = own[: turn.calls], own[turn.calls :]
            took += calls[-1]["at"] + calls[-1]["duration_ms"] / 1000 - calls[0]["at"]
            assert (turn.tier, turn.outcome) == (calls[-1]["tier"], calls[-1]["outcome"])
        assert own == []
    assert played.took_seconds == pytest.approx(took, abs=0.01)


def test_failed_turns_count_with_what_deep_takes_for_them():
    deep = Played([Turn(0.0, last_at=8.0), Turn(10.0, last_at=14.0)], [False, False])
    fast = Played([Turn(0.0, last_at=1.0, calls=3), Turn(10.0, last_at=11.0, calls=1)], [True, False])

    assert (fast.took_seconds, fast.redo_seconds(deep), fast.requests) == (2.0, 8.0, 4)
    assert deep.redo_seconds(deep) == 0.0


def test_what_is_printed_for_a_turn_is_what_the_ledger_has(played_demo):
    lines = played_demo.printed.splitlines()
    for turn, words in zip(played_demo.runs[TANDEM].turns, TYPED, strict=True):
        after = lines[lines.index(f"> {words}".split("\n")[0]) + 1 + words.count("\n") :]
        shown = next(line for line in after if not line.startswith("time "))
        moved = ["↑"] if turn.has_moved_up else []

        assert shown.split()[4 : 8 + len(moved)] == [
            turn.tier.upper(),
            *moved,
            str(turn.calls),
            duration(turn.first_seconds),
            duration(turn.seconds),
        ]
        assert turn.why in shown


def test_the_interrupted_turn_is_abandoned_and_the_redirected_one_goes_to_fast(played_demo):
    interrupted, redirected = turn_of(played_demo, "extract"), turn_of(played_demo, REDIRECT)

    assert (interrupted.tier, interrupted.outcome, interrupted.calls) == ("deep", "ABANDONED", 2)
    assert (redirected.tier, redirected.outcome, redirected.session) == ("fast", "SERVED", interrupted.session)


def test_a_429_of_fast_spills_to_deep_and_the_reason_says_so(played_demo, rows):
    turn = turn_of(played_demo, SPILL)
    row = next(row for row in rows[TANDEM] if row["session"] == turn.session)

    assert (turn.tier, turn.calls) == ("deep", 1)
    assert turn.why.startswith("simulated-fast failed (429), so simulated-deep answers")
    assert [(attempt["target"], attempt["status"]) for attempt in json.loads(row["attempts"])] == [
        ("simulated-fast", 429),
        ("simulated-deep", 200),
    ]


def test_a_turn_in_trouble_on_fast_is_moved_up_to_deep(played_demo):
    turn = turn_of(played_demo, RESCUE)

    assert (turn.has_moved_up, turn.tier) == (True, "deep")
    assert "3 test runs failed" in turn.why
    assert not any(played_demo.runs[TANDEM].failures)


def test_the_tier_line_is_shown_and_obeyed(played_demo):
    turn = turn_of(played_demo, "tier: fast")

    assert (turn.tier, turn.why) == ("fast", "the first line asks for fast")
    assert "> tier: fast\n  sketch how" in played_demo.printed


def test_one_tier_alone_serves_the_other_two_runs(rows):
    assert {row["tier"] for row in rows[ALWAYS_DEEP]} == {"deep"}
    assert {row["tier"] for row in rows["always fast"]} == {"fast"}
    assert [row["status"] for row in rows["always fast"] if row["status"] != 200] == [429]


def test_without_a_terminal_the_lines_are_plain(played_demo):
    assert "\x1b" not in played_demo.printed


def test_as_json_it_prints_nothing_else_and_ends_well(capsys):
    assert main(["demo", "--json", "--speed", "10"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["tandem", "always_deep", "always_fast"]
    assert told["always_fast"]["failed_turns"] == 2
    assert told["tandem"]["failed_turns"] == told["always_deep"]["failed_turns"] == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_no_file_behind(tmp_path, number, code):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    # A shell that runs us in the background ignores SIGINT, and so would the demo.
    listens = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from router.cli import main; "
    listens += "sys.exit(main(['demo']))"
    demo = subprocess.Popen(
        [sys.executable, "-c", listens], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    for line in demo.stdout:
        if line.startswith(b">"):
            break

    demo.send_signal(number)
    _, said = demo.communicate(timeout=60)

    assert demo.returncode == code
    assert said == b""
    assert list(tmp_path.iterdir()) == []
