"""`tandem eval --complaints` as a person meets it."""

import json

from router.cli import main

BAD = {"asked": "fix the typo", "says": "no, it still fails with the same message", "label": "bad"}
FINE = {"asked": "fix the typo", "says": "rename a to b", "label": "fine"}


def write(path, *lines) -> str:
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


def test_what_is_heard_is_counted(tmp_path, capsys):
    assert main(["eval", "--complaints", "--json", write(tmp_path / "said.jsonl", BAD, FINE)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "catch": 1.0, "false_alarm": 0.0, "bad": 1, "fine": 1, "caught": 1, "alarms": 0
    }  # fmt: skip


def test_where_there_are_no_complaints_no_share_is_made_up(tmp_path, capsys):
    assert main(["eval", "--complaints", write(tmp_path / "said.jsonl", FINE)]) == 0
    assert "catch        -      0 of 0" in capsys.readouterr().out


def test_a_file_without_remarks_is_refused(tmp_path, capsys):
    assert main(["eval", "--complaints", write(tmp_path / "said.jsonl")]) == 2
    assert "contain no remarks" in capsys.readouterr().err
