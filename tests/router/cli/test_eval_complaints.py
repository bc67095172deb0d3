import json

from router.cli import main

SAID = [("fix the footer", "still red", "bad"), ("fix the footer", "thanks, works", "fine"), ("", "commit this", "fine")]


def write_remarks(folder) -> str:
    path = folder / "remarks.jsonl"
    lines = (json.dumps({"asked": asked, "says": says, "label": label}) for asked, says, label in SAID)
    path.write_text("\n".join(lines))
    return str(path)


def test_how_many_complaints_are_heard_is_printed_for_a_person_and_for_a_program(tmp_path, capsys):
    path = write_remarks(tmp_path)

    assert main(["eval", "--complaints", path]) == 0
    assert "catch        1.000  1 of 1" in capsys.readouterr().out
    assert main(["eval", "--complaints", path, "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told == {"catch": 1.0, "false_alarm": 0.0, "bad": 1, "fine": 2, "caught": 1, "alarms": 0}


def test_a_file_without_remarks_says_what_a_line_needs(tmp_path, capsys):
    path = tmp_path / "asks.jsonl"
    path.write_text('{"text": "fix it", "label": "quick"}\n')

    assert main(["eval", "--complaints", str(path)]) == 2
    assert '"asked", "says"' in capsys.readouterr().err


def test_a_label_that_is_not_known_is_named_with_its_line(tmp_path, capsys):
    path = tmp_path / "remarks.jsonl"
    path.write_text('{"asked": "a", "says": "b", "label": "wrong"}\n')

    assert main(["eval", "--complaints", str(path)]) == 2
    assert 'line 1: says must be text, and label must be "bad" or "fine"' in capsys.readouterr().err
