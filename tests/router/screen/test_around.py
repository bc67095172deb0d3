"""The lines above and below the turns."""

from dataclasses import replace

import msgspec.structs
import pytest

from router.contract.caller import LOCAL
from router.contract.job import EndedJob, JobState
from router.contract.notices import Notice, Trouble
from router.contract.words import Tier
from router.screen.around import (
    Facts,
    read_jobs,
    write_event,
    write_head,
    write_jobs,
    write_notices,
    write_savings,
    write_targets,
)
from router.screen.figures import clock
from router.screen.seen import Noted
from router.screen.text import Style, width_of

REAL = Facts(
    version="0.3.0",
    url="http://127.0.0.1:4000",
    targets=((Tier.FAST, "cerebras gpt-oss-120b"), (Tier.DEEP, "anthropic claude-opus-5-5")),
    preference="balanced",
    ledger="tandem.db",
    connect="tandem connect codex | claude-code | opencode",
    init="tandem init --force",
    is_simulated=False,
)


def test_at_140_columns_the_head_is_three_lines():
    assert write_head(REAL, 140, Style()) == [
        "Tandem 0.3.0   http://127.0.0.1:4000/v1   Claude Code: http://127.0.0.1:4000   page: http://127.0.0.1:4000/",
        "fast  cerebras gpt-oss-120b   deep  anthropic claude-opus-5-5   balanced   ledger tandem.db",
        "Connect a client: tandem connect codex | claude-code | opencode   Ctrl-C stops",
        "",
    ]


def test_at_80_columns_it_takes_more_lines():
    assert write_head(REAL, 80, Style())[1:4] == [
        "page: http://127.0.0.1:4000/",
        "fast  cerebras gpt-oss-120b   deep  anthropic claude-opus-5-5   balanced",
        "ledger tandem.db",
    ]


def test_without_a_model_it_says_so_and_how_to_get_one():
    lines = write_head(replace(REAL, is_simulated=True), 80, Style())

    assert "No model is configured: simulated tiers answer.   Your own: tandem init --force" in lines


def test_without_a_page_it_names_none():
    lines = write_head(replace(REAL, has_page=False), 140, Style())

    assert not any("page" in line for line in lines)
    assert lines[1].endswith("balanced   ledger tandem.db")


@pytest.mark.parametrize("columns", [20, 40, 80, 140])
def test_no_line_is_wider_than_the_terminal(columns):
    targets = tuple((tier, f"target-{number} a-model-with-a-long-name") for tier in Tier for number in range(8))

    assert all(width_of(line) <= columns for line in write_head(replace(REAL, targets=targets), columns, Style()))


def test_a_target_cannot_steer_the_terminal():
    assert "\x1b" not in "".join(write_head(replace(REAL, targets=((Tier.FAST, "a\x1b[2J"),)), 80, Style()))


NOTICE = Notice(Trouble.KEY_REFUSED, "spark", 1_000.0, "spark: its host refuses the API key", "tandem check")


def test_a_trouble_is_one_line_with_its_time_and_a_hint():
    assert write_notices([NOTICE], 120, 12, Style()) == [
        f"! spark: its host refuses the API key, since {clock(1_000.0)}; hint: tandem check"
    ]


def test_a_trouble_that_is_wider_than_the_terminal_is_broken_and_nothing_of_it_is_lost():
    hint = "set OPENAI_API_KEY in .env next to config.yaml, then run tandem check --live"
    lines = write_notices([msgspec.structs.replace(NOTICE, hint=hint)], 80, 12, Style())

    assert lines == [
        f"! spark: its host refuses the API key, since {clock(1_000.0)}; hint: set OPENAI_API_KEY in",
        "  .env next to config.yaml, then run tandem check --live",
    ]


def test_a_trouble_is_never_wider_than_the_terminal_and_has_no_escapes_of_its_own():
    lines = write_notices([msgspec.structs.replace(NOTICE, text="spark\x1b[2J" + "x" * 99)], 40, 12, Style())

    assert max(map(width_of, lines)) == 40
    assert "".join(line.strip() for line in lines).count("x") == 99
    assert "\x1b" not in "".join(lines)


def test_of_many_troubles_the_newest_are_shown_and_the_others_counted():
    notices = [msgspec.structs.replace(NOTICE, text=f"{number}") for number in range(9)]
    lines = write_notices(notices, 80, 12, Style())

    assert lines[0] == "! and 5 more problems"
    assert [line[2] for line in lines[1:]] == ["5", "6", "7", "8"]


def test_where_there_are_few_rows_fewer_troubles_are_shown_and_each_of_them_whole():
    long = [msgspec.structs.replace(NOTICE, hint="word " * 20), msgspec.structs.replace(NOTICE, text="another")]

    assert write_notices(long, 80, 3, Style())[0] == "! and 1 more problem"
    assert len(write_notices(long[:1], 80, 1, Style())) == 3


def test_a_trouble_is_red_on_a_terminal_with_colours():
    assert write_notices([NOTICE], 80, 12, Style(has_colour=True))[0].startswith("\x1b[31m! spark")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            80,
            [
                "00:16 ! anthropic: its host refuses the API key, and nothing is sent there for",
                "      10 minutes; hint: tandem check --live",
            ],
        ),
        (
            120,
            [
                "00:16  ! anthropic: its host refuses the API key, and nothing is sent there for 10 minutes; hint: tandem check --live"
            ],
        ),
    ],
)
def test_an_event_is_a_row_with_its_time_and_its_cure_is_not_cut_off(columns, expected, monkeypatch):
    monkeypatch.setattr("router.screen.around.clock", lambda _: "00:16")
    text = "anthropic: its host refuses the API key, and nothing is sent there for 10 minutes; hint: tandem check --live"

    assert write_event(Noted(text, "error", 1_000.0), columns, Style()) == expected


def test_an_event_without_need_of_a_person_has_no_mark_and_other_lines_have_no_time():
    assert write_event(Noted("config reloaded", "info", 1_000.0), 80, Style()) == [f"{clock(1_000.0)} config reloaded"]
    assert write_event(Noted("A coding afternoon"), 80, Style()) == ["A coding afternoon"]


def make(name: str, state: JobState = JobState.COMPLETED) -> EndedJob:
    return EndedJob(name, LOCAL, "s", state, "Write the parser", 1_000.0)


def test_a_job_is_one_line_with_its_task_its_end_and_the_command_that_collects_it():
    assert write_jobs([make("resp_1", JobState.FAILED)]) == [
        f'job failed at {clock(1_000.0)}: "Write the parser"; collect it with tandem jobs result resp_1'
    ]


def test_a_job_whose_task_is_not_ours_to_read_has_none():
    assert write_jobs([msgspec.structs.replace(make("resp_1"), title="")]) == [
        f"job completed at {clock(1_000.0)}; collect it with tandem jobs result resp_1"
    ]


def test_of_many_jobs_the_newest_are_shown_and_the_others_counted():
    lines = write_jobs([make(f"resp_{number}") for number in range(5)])

    assert lines[0] == "and 2 more background jobs to collect; tandem jobs list"
    assert [line.split()[-1] for line in lines[1:]] == ["resp_2", "resp_3", "resp_4"]


def test_a_router_elsewhere_reports_the_same_in_its_stats():
    jobs = [{"id": "resp_1", "state": "completed", "title": "Write the parser", "ended_at": 1_000.0}, {"id": 7}, "x"]
    jobs += [{"id": "resp_2", "state": "x"}, {"id": "resp_3", "ended_at": 1_000.0}]

    assert read_jobs({"jobs": jobs}) == write_jobs([make("resp_1")])
    assert read_jobs({}) == read_jobs({"jobs": None}) == []


SPARK = {"tier": "fast", "in_flight": 2, "ttft_seconds": 0.21, "tokens_per_second": 812.3, "wait_seconds": 0.0}


def test_each_target_is_a_line_with_fast_ones_first():
    sage = {"tier": "deep", "ttft_seconds": 1.4, "tokens_per_second": 70, "wait_seconds": 4.0, "wait_because": "a queue"}

    assert write_targets({"targets": {"sage": sage, "spark": SPARK}}) == [
        "fast  spark  first token 0.2s, 812 tokens/s, 2 running",
        "deep  sage   first token 1.4s, 70 tokens/s, wait 4.0s (a queue)",
    ]


def test_of_many_targets_some_are_counted():
    assert write_targets({"targets": {f"t{number}": SPARK for number in range(9)}})[-1] == "and 3 more targets"


def test_what_is_not_there_is_left_out():
    assert write_targets({}) == []
    assert write_targets({"targets": {"a": {"tier": "fast"}}}) == ["fast  a  first token -"]


def test_savings_are_the_one_sentence():
    said = {"turns": 3, "sentence": "$2.10 and about 12 min less than all on deep"}

    assert write_savings(said, "24h") == ["last 24h: $2.10 and about 12 min less than all on deep"]
    assert write_savings({**said, "turns": 0}, "24h") == []
    assert write_savings({"turns": 3, "figures": {}}, "24h") == [], "from an older router"
