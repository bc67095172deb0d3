"""One turn as one line, at 80 and at 140 columns."""

import time
from dataclasses import replace

import pytest

from router.cli.lines import Layout, short_name
from router.cli.text import Style, width_of
from router.contract.words import Outcome, Tier, TurnKind
from router.past.turns import Turn

AT = time.mktime((2026, 11, 15, 11, 23, 0, 0, 0, -1))
SERVED = {"outcome": Outcome.SERVED, "kind": TurnKind.ASK}
QUICK = Turn(
    AT, "codex", "codex:0199-3f2a", 1, tier=Tier.FAST, calls=2, first_seconds=0.2, seconds=0.9, input_tokens=9_900,
    output_tokens=140, cost_usd=0.004, why="quick edit: rename", **SERVED,
)  # fmt: skip
LONG = Turn(
    AT + 60, "claude-code", "claude-code:b81c", 4, tier=Tier.DEEP, calls=17, first_seconds=1.1, seconds=124.0,
    input_tokens=84_000, output_tokens=6_200, cost_usd=0.61, why="long task: migrate, whole codebase", **SERVED,
)  # fmt: skip
MOVED = Turn(
    AT + 180, "codex", "codex:0199-3f2a", 2, tier=Tier.DEEP, has_moved_up=True, calls=14, seconds=41.0,
    why="moved up at call 12: 2 test runs failed", **SERVED,
)  # fmt: skip
TITLE = Turn(
    AT + 180, "claude-code", "claude-code:b81c", tier=Tier.FAST, calls=1, first_seconds=0.3, seconds=0.3, input_tokens=1_000,
    output_tokens=12, cost_usd=0.0, why="a side request", outcome=Outcome.SERVED, kind=TurnKind.SIDE,
)  # fmt: skip
REFUSED = Turn(
    AT + 240, "codex", "codex:0199-3f2a", status=404, outcome=Outcome.REFUSED, trouble='model "gpt-9" is not in models:'
)
ALL = (QUICK, LONG, MOVED, TITLE, REFUSED)


def draw(columns: int, style: Style | None = None) -> list[str]:
    layout = Layout(columns, style or Style())
    return [layout.head(), *(line for turn in ALL for line in layout.lines(turn))]


def test_at_140_columns_every_figure_has_its_column():
    assert draw(140) == [
        "time   client         turn  tier    calls  first   took     in → out     cost  why",
        "11:23  codex 3f2a        1  FAST        2   0.2s   0.9s   9.9k → 140   $0.004  quick edit: rename",
        "11:24  claude b81c       4  DEEP       17   1.1s   2m04   84k → 6.2k    $0.61  long task: migrate, whole codebase",
        "11:26  codex 3f2a        2  DEEP ↑     14      -    41s            -        -  moved up at call 12: 2 test runs failed",
        "11:26  claude b81c       -  fast        1   0.3s   0.3s    1.0k → 12   $0.000  a side request",
        '11:27  codex 3f2a        -  404                                                model "gpt-9" is not in models:',
    ]


def test_at_80_columns_the_reason_keeps_some_room():
    lines = draw(80)

    assert lines == [
        "time  client        turn tier   took    in→out   cost why",
        "11:23 codex 3f2a       1 FAST   0.9s  9.9k→140 $0.004 rename",
        "11:24 claude b81c      4 DEEP   2m04  84k→6.2k  $0.61 migrate, whole codebase",
        "11:26 codex 3f2a       2 DEEP↑   41s         -      - call 12: 2 test runs",
        "                                                      failed",
        "11:26 claude b81c      - fast   0.3s   1.0k→12 $0.000 a side request",
        '11:27 codex 3f2a       - 404   model "gpt-9" is not in models:',
    ]
    assert max(map(width_of, lines)) <= 80


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        ("long task: plan, CI, docs", "plan, CI, docs"),
        ("quick question: how to", "how to"),
        ("quick turn", "quick turn"),
        ("unclear; follows the last turn", "follows the last turn"),
        ('the model name "fast" asks for fast', 'model "fast"'),
        ("compaction stays with its session on deep", "compaction"),
    ],
)
def test_a_narrow_terminal_shows_what_was_read_and_not_what_the_tier_says(why, shown):
    turn = replace(QUICK, why=why)

    assert Layout(80, Style()).lines(turn)[0].endswith(f" {shown}")
    assert Layout(140, Style()).lines(turn)[0].endswith(f" {why}")


def test_no_line_is_wider_than_the_terminal(subtests):
    for columns in range(1, 200):
        with subtests.test(columns=columns):
            assert max(width_of(line) for line in draw(columns)[1:]) <= max(columns, 20)


def test_a_terminal_without_unicode_gets_plain_marks():
    lines = draw(80, Style("ascii"))

    assert "".join(lines).isascii()
    assert "DEEP^" in lines[3]
    assert draw(40, Style("ascii"))[2].endswith(" migrate, whole code~")


def test_side_requests_are_dim_and_refusals_red():
    _, quick, long, _, title, refused = draw(140, Style(has_colour=True))

    assert "\x1b[32mFAST" in quick
    assert "\x1b[34mDEEP" in long
    assert title.startswith("\x1b[2m")
    assert "\x1b[31m404" in refused


def test_names_of_clients_and_models_cannot_steer_the_terminal():
    turn = Turn(
        AT, "co\x1b[2Jdex", "s\x1b]0;x", tier=None, outcome=Outcome.REFUSED, status=404, trouble='model "\x1b[2J\u202e" is'
    )

    line = Layout(140, Style()).lines(turn)[0]

    assert line.isprintable()
    assert "co?[2J" in line


def test_a_line_of_another_day_has_its_date():
    assert Layout(140, Style(), is_dated=True).lines(QUICK)[0].startswith("11-15 11:23  codex 3f2a ")


@pytest.mark.parametrize(
    ("client", "session", "name"),
    [
        ("claude-code", "claude-code:12-b81c", "claude b81c"),
        ("opencode", "opencode:ses_9Zb1", "opencode 9Zb1"),
        ("unknown", "unknown:~a54885db8d940683", "unknown 0683"),
        ("", "", "-"),
        ("averyverylongname", "x", "averyve… x"),
    ],
)
def test_a_session_goes_by_its_client_and_the_end_of_its_name(client, session, name):
    assert short_name(Turn(AT, client, session), Style()) == name


@pytest.mark.parametrize(
    ("columns", "why", "expected"),
    [
        (80, "openai failed (auth), so opus answers", ["openai failed (auth), so", "opus answers"]),
        (80, "this session is set to deep", ["this session is set to", "deep"]),
        (120, "openai failed (auth), so opus answers", ["openai failed (auth), so opus answers"]),
        (80, "quick edit: rename; openai rests after a failure", ["rename; openai rests after", "a failure"]),
        (80, "long task: whole codebase, tests, migrate", ["whole codebase, tests, mi…"]),
        (80, "moved up after 12 tool calls: 6 edits", ["after 12 tool calls: 6", "edits"]),
    ],
)
def test_a_reason_that_is_a_sentence_is_never_cut(columns, why, expected):
    lines = Layout(columns, Style()).lines(replace(LONG, why=why))

    start = columns - Layout(columns, Style())._why
    assert [line[start:] for line in lines] == expected
    assert all(line[:start].isspace() for line in lines[1:])


def test_the_words_of_a_host_do_not_fill_the_screen():
    turn = replace(LONG, trouble="failed: " + "word " * 400, outcome=Outcome.FAILED)

    assert len(Layout(80, Style()).lines(turn)) == 8
    assert Layout(80, Style()).lines(turn)[-1].strip() == "…"
