"""The logs of every client, read into the same form."""

import json
import os
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from router.dialects.requests import read_request
from router.past.cases import cases_of
from router.past.logs import find_logs, read_logs, recognise, usual_places
from router.past.logs.lines import Tally
from router.sessions.turns import read_turn
from tests.router.past.logs.written import FORMATS, TURNS, read
from tests.tools.histories import BEGAN, LONG, QUICK, Told, claude_log, codex_log, write_home


@pytest.mark.parametrize("name", FORMATS)
def test_a_log_is_recognised_by_its_first_lines(tmp_path, name):
    file, write = FORMATS[name]
    (tmp_path / file).write_text(write(TURNS))

    assert recognise(tmp_path / file) == name


@pytest.mark.parametrize("name", FORMATS)
def test_every_client_tells_the_same_turns(tmp_path, name):
    file, write = FORMATS[name]

    (session,), tally = read(tmp_path, (file, write(TURNS)))

    assert [turn.words for turn in session.turns] == [turn.words for turn in TURNS]
    assert [turn.edits for turn in session.turns] == [1, 7, 0, 0]
    assert [turn.was_asked_again for turn in session.turns] == [False, True, False, False]
    assert all(turn.was_answered for turn in session.turns)
    assert tally.files == {name: 1}
    assert tally.broken_lines == 0


@pytest.mark.parametrize("name", FORMATS)
def test_calls_are_counted_until_the_person_speaks_again(tmp_path, name):
    file, write = FORMATS[name]

    (session,), _ = read(tmp_path, (file, write([*TURNS, Told("plan it", ("TodoWrite", "Bash"))])))

    assert [len(turn.calls) for turn in session.turns] == [2, 17, 1, 0, 1]


@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_what_else_a_log_says_of_a_turn_is_kept(tmp_path, name):
    file, write = FORMATS[name]
    first = Told("fix it", ("Bash",), prompt_tokens=21_000, effort="high", is_planning=True, model="one")

    (session,), _ = read(tmp_path, (file, write([first, Told("and now this", ("Bash",), is_interrupted=True, model="two")])))

    turn, last = session.turns
    assert (turn.prompt_tokens, turn.effort, turn.is_planning, turn.model) == (21_000, "high", True, "one")
    assert turn.seconds > 0
    assert turn.has_switched_model
    assert last.was_interrupted
    assert not last.is_planning


@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_a_compaction_forgets_the_turns_before(tmp_path, name):
    file, write = FORMATS[name]
    compacted = [replace(turn, compacts=index == 1) for index, turn in enumerate(TURNS)]

    (session,), _ = read(tmp_path, (file, write(compacted)))

    assert [turn.remembers_from for turn in session.turns] == [0, 0, 2, 2]
    assert session.turns[2].text_chars == 0


@pytest.mark.parametrize("content", ["null", "[]", '"x"', "12", '{"content": 3}', '[{"type": "tool_result", "content": [1]}]'])
def test_fields_of_another_shape_do_no_harm(tmp_path, content):
    line = f'{{"type": "user", "sessionId": "s", "message": {{"content": {content}}}, "timestamp": {{}}}}\n'
    line += f'{{"type": "assistant", "sessionId": "s", "message": {{"content": {content}, "usage": []}}}}\n'
    rollout = f'{{"type": "response_item", "payload": {{"type": "message", "role": "user", "content": {content}}}}}\n'

    sessions, _ = read(tmp_path, ("one.jsonl", line), ("two.jsonl", rollout), ("good.jsonl", claude_log(TURNS)))

    assert any(len(session.turns) == len(TURNS) for session in sessions), "the good log beside them is read whole"


def test_files_of_an_unknown_kind_are_counted(tmp_path):
    sessions, tally = read(tmp_path, ("a.jsonl", '{"x": 1}\n'), ("b.md", "# A page\n"), ("c.jsonl", ""))

    assert sessions == []
    assert tally.unknown_files == 3


def test_a_resumed_session_that_repeats_its_beginning_tells_each_turn_once(tmp_path):
    sessions, tally = read(tmp_path, ("one.jsonl", claude_log(TURNS[:2])), ("two.jsonl", claude_log(TURNS)))

    assert tally.repeated_turns == 2
    assert [turn.is_repeated for turn in sessions[1].turns] == [True, True, False, False]


def test_a_loop_of_links_ends_and_a_file_that_is_linked_twice_counts_once(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "one.jsonl").write_text(claude_log(TURNS))
    (folder / "again.jsonl").symlink_to(folder / "one.jsonl")
    (folder / "self").symlink_to(folder, target_is_directory=True)
    (folder / "gone.jsonl").symlink_to(folder / "nowhere.jsonl")
    os.symlink("ring.jsonl", folder / "ring.jsonl")
    tally = Tally()

    found = find_logs([folder], tally)

    assert len(found) == 1
    assert tally.unreadable_files == 2


def test_a_project_folder_that_is_a_link_is_walked_once(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/one.jsonl").write_text(claude_log(TURNS))
    projects = tmp_path / "projects"
    projects.mkdir()
    (projects / "-repo").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (projects / "-again").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (projects / "-up").symlink_to(tmp_path, target_is_directory=True)

    found = find_logs([projects], Tally())

    assert [log.path.name for log in found] == ["one.jsonl"]


def test_clients_that_keep_their_logs_elsewhere_are_found_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    for place, text in (
        ("codex/sessions/2026/rollout-1.jsonl", codex_log(TURNS)),
        ("codex/archived_sessions/rollout-2.jsonl", codex_log(TURNS, id="archived")),
        ("claude/projects/-repo/one.jsonl", claude_log(TURNS)),
    ):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(text)

    found = find_logs([place for place in usual_places() if place.is_relative_to(tmp_path)], Tally())

    assert sorted(log.path.name for log in found) == ["one.jsonl", "rollout-1.jsonl", "rollout-2.jsonl"]


def test_the_usual_places_are_those_of_the_clients(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    write_home(tmp_path, TURNS)

    found = find_logs([place for place in usual_places() if place.is_relative_to(tmp_path)], Tally())

    assert {recognise(log.path) for log in found} == {"codex", "claude-code"}


def test_the_same_words_in_another_session_are_another_turn(tmp_path):
    later = claude_log([QUICK], BEGAN + timedelta(hours=1))

    _, tally = read(tmp_path, ("one.jsonl", claude_log([QUICK])), ("two.jsonl", later))

    assert tally.repeated_turns == 0


@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_work_after_an_ask_that_cannot_be_read_is_not_that_of_the_turn_before(tmp_path, name):
    file, write = FORMATS[name]
    lines = write([QUICK, LONG, QUICK]).splitlines()
    broken = [line[: len(line) // 2] + line[-1:] if LONG.words in line else line for line in lines]

    (session,), tally = read(tmp_path, (file, "\n".join(broken)))

    assert tally.broken_lines == 1
    assert [(turn.words, turn.calls) for turn in session.turns] == [(QUICK.words, QUICK.calls)] * 2


@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_a_broken_line_of_a_tools_result_costs_the_turn_nothing_else(tmp_path, name):
    file, write = FORMATS[name]
    lines = write([LONG]).splitlines()
    results = [index for index, line in enumerate(lines) if "function_call_output" in line or "tool_result" in line]
    lines[results[0]] = lines[results[0]][:-1]

    (session,), _ = read(tmp_path, (file, "\n".join(lines)))

    assert session.turns[0].calls == LONG.calls


def test_other_words_within_the_same_second_are_another_turn(tmp_path):
    _, tally = read(tmp_path, ("one.jsonl", claude_log([QUICK])), ("two.jsonl", claude_log([LONG])))

    assert tally.repeated_turns == 0


@pytest.mark.parametrize("fault", [ValueError, TypeError, KeyError, OverflowError, RecursionError])
def test_a_file_that_brings_its_reader_down_is_left_out_and_counted(tmp_path, fault):
    (tmp_path / "a.jsonl").write_text(codex_log(TURNS))
    (tmp_path / "b.jsonl").write_text(claude_log(TURNS))
    os.utime(tmp_path / "a.jsonl", (1, 1))
    steps = iter([fault("unforeseen")])

    def stumble_once(_: int) -> None:
        for trouble in steps:
            raise trouble

    tally = Tally(advance=stumble_once)

    sessions = list(read_logs(find_logs([tmp_path], tally), tally))

    assert [session.client for session in sessions] == ["claude-code"]
    assert (tally.unreadable_files, tally.files) == (1, {"claude-code": 1})


def test_a_pipe_is_no_log_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    tally = Tally()

    assert find_logs([tmp_path], tally) == []
    assert tally.unreadable_files == 1


ODD_VALUES = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(["type", "text", "content", "id"]), inner)
    ),
    max_leaves=5,
)


def change_value(value, draw):
    """Put something odd in the place of one value, wherever that stands."""
    if isinstance(value, dict) and value and draw(some.integers(0, 3)):
        key = draw(some.sampled_from(sorted(value)))
        return {**value, key: change_value(value[key], draw)}
    if isinstance(value, list) and value and draw(some.integers(0, 3)):
        return [change_value(value[0], draw), *value[1:]]
    return draw(ODD_VALUES)


@some.composite
def odd_logs(draw):
    """A small log of any kind, of which one line is changed: a value of it, or its letters."""
    name = draw(some.sampled_from(sorted(FORMATS)))
    file, write = FORMATS[name]
    lines = write([replace(QUICK, prompt_tokens=900), Told("it is still wrong", is_interrupted=True, compacts=True)]).split(
        "\n"
    )
    place = draw(some.integers(0, len(lines) - 1))
    line = lines[place]
    if line and draw(some.booleans()):
        lines[place] = json.dumps(change_value(json.loads(line), draw))
    else:
        cut, end = sorted((draw(some.integers(0, len(line))), draw(some.integers(0, len(line)))))
        odd = draw(some.text(max_size=4) | some.sampled_from(["(", ")", "9.9", ",", "\t", "0001-01-01"]))
        lines[place] = line[:cut] + odd + line[end:]
    return file, "\n".join(lines)


@given(odd_logs())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_odd_line_ends_the_reading_or_costs_the_file(tmp_path, odd):
    file, text = odd
    (tmp_path / file).write_bytes(text.encode("utf-8", "replace"))
    tally = Tally()

    sessions = list(read_logs(find_logs([tmp_path / file], tally), tally))

    for case in cases_of(sessions):
        read_turn(read_request(case.arrival))
    assert tally.unreadable_files == 0


@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_what_a_model_writes_through_its_tools_counts_as_written(tmp_path, name):
    file, write = FORMATS[name]
    text = write([Told("add it", ("Edit",) * 3), Told("thanks")])
    (session,), _ = read(tmp_path, (file, text.replace('"input": {}', '"input": {"new_string": "def f(): ..."}')))

    assert session.turns[0].answer_chars > session.turns[1].answer_chars
