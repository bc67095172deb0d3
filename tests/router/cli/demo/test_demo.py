"""`tandem demo`: what it claims is what the ledgers hold, and it leaves nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from router.cli import main
from router.cli.demo import RUNS, as_json
from router.cli.demo.afternoon import AFTERNOON
from router.screen.figures import duration
from tests.tools.running import read_entries

ROOT = Path(__file__).resolve().parents[4]
SPILL, RESCUE, REDIRECT = "update the copyright year in docs/conf.py", "fix the off-by-one in paginate()", "no, just rename"


@pytest.fixture
def rows(played_demo) -> dict[str, list[dict]]:
    return {name: read_entries(played_demo.folder / name / "ledger.db") for name in RUNS}


def turn_of(played_demo, words: str):
    return next(turn for turn in played_demo.accounts["Tandem"] if turn.words.startswith(words))


@pytest.mark.parametrize("name", list(RUNS))
def test_every_row_of_the_ledger_belongs_to_a_turn_and_nothing_else_is_told(played_demo, rows, name):
    told = [row["id"] for turn in played_demo.accounts[name] for row in turn.rows]

    assert told == [row["id"] for row in rows[name]]
    assert len(played_demo.accounts[name]) == sum(map(len, AFTERNOON))


@pytest.mark.parametrize("name", list(RUNS))
def test_the_sums_are_those_of_the_rows(played_demo, rows, name):
    told = as_json(played_demo.accounts)[name.replace(" ", "_").lower()]
    by_id = {row["id"]: row for row in rows[name]}

    took = 0.0
    for turn in told["turns"]:
        first, last = by_id[turn["requests"][0]], by_id[turn["requests"][-1]]
        seconds = last["at"] + last["duration_ms"] / 1000 - first["at"]
        assert turn["took_seconds"] == pytest.approx(seconds, abs=0.002)
        assert turn["tiers"][-1] == last["tier"]
        assert turn["outcome"] == last["outcome"]
        assert turn["because"] in [by_id[request]["because"] for request in turn["requests"]]
        took += seconds
    assert told["took_seconds"] == pytest.approx(took, abs=0.01)
    assert told["requests"] == len(rows[name])


def test_what_is_printed_for_a_turn_is_in_its_rows(played_demo):
    lines = played_demo.printed.splitlines()
    for turn in played_demo.accounts["Tandem"]:
        after = lines[lines.index(f"> {turn.words}".split("\n")[0]) + 1 + turn.words.count("\n") :]
        served = " ".join(line.strip() for line in after[:3])
        first = next(row for row in turn.rows if row["ttft_ms"] is not None)

        assert after[0].split("  ")[1] == " → ".join(turn.tiers)
        assert f"{len(turn.rows)}  {duration(first['ttft_ms'] / 1000):>5}  {duration(turn.took_seconds):>5}" in served
        assert turn.because in served


def test_the_interrupted_turn_is_abandoned_and_the_redirected_one_goes_to_fast(played_demo):
    interrupted, redirected = turn_of(played_demo, "extract"), turn_of(played_demo, REDIRECT)

    assert [(row["tier"], row["outcome"]) for row in interrupted.rows] == [("deep", "SERVED"), ("deep", "ABANDONED")]
    assert {(row["tier"], row["outcome"]) for row in redirected.rows} == {("fast", "SERVED")}
    assert {row["session"] for row in redirected.rows} == {row["session"] for row in interrupted.rows}


def test_a_429_of_fast_spills_to_deep_and_the_reason_says_so(played_demo, rows):
    (told,) = turn_of(played_demo, SPILL).rows
    row = next(row for row in rows["Tandem"] if row["id"] == told["id"])

    assert row["tier"] == "deep"
    assert row["because"].startswith("simulated-fast failed (429), so simulated-deep answers")
    assert [(attempt["target"], attempt["status"]) for attempt in json.loads(row["attempts"])] == [
        ("simulated-fast", 429),
        ("simulated-deep", 200),
    ]


def test_a_turn_in_trouble_on_fast_is_moved_up_to_deep(played_demo):
    turn = turn_of(played_demo, RESCUE)

    assert turn.tiers == ("fast", "deep")
    assert "3 test runs failed" in turn.because
    assert not turn.has_failed


def test_the_tier_line_is_obeyed(played_demo):
    (row,) = turn_of(played_demo, "tier: fast").rows

    assert (row["tier"], row["because"]) == ("fast", "the first line asks for fast")


def test_one_tier_alone_serves_the_other_two_runs(rows):
    assert {row["tier"] for row in rows["always deep"]} == {"deep"}
    assert {row["tier"] for row in rows["always fast"]} == {"fast"}
    assert [row["status"] for row in rows["always fast"] if row["status"] != 200] == [429]


def test_without_a_terminal_the_lines_are_plain_and_fit_80_columns(played_demo):
    assert "\x1b" not in played_demo.printed
    assert "\r" not in played_demo.printed
    assert max(map(len, played_demo.printed.splitlines())) <= 80


def without_times(text: str) -> list[str]:
    lines = (re.sub(r"\b[\d.]+s\b|\b\d+m\d\d\b|\b\d+(?= tokens/s)", "#", line) for line in text.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def test_the_picture_in_the_readme_shows_what_the_demo_prints_today(played_demo):
    picture = ElementTree.parse(ROOT / "docs" / "demo.svg").getroot()
    lines = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text") if text.get("class") != "t"]

    assert without_times("\n".join(lines)) == ["$ tandem demo", *without_times(played_demo.printed)], "make demo-svg"


def test_as_json_it_prints_nothing_else_and_ends_well(capsys):
    assert main(["demo", "--json", "--speed", "10"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["tandem", "always_deep", "always_fast"]
    assert told["always_fast"]["failed_turns"] == 2
    assert told["tandem"]["failed_turns"] == told["always_deep"]["failed_turns"] == 0


def addresses_in(folder: Path) -> list[tuple[str, int]]:
    """Where the routers of a demo listen, as far as they have said."""
    logs = [log.read_text() for log in folder.glob("tandem-demo-*/*/router.log")]
    return [("127.0.0.1", int(found[1])) for log in logs if (found := re.search(r"http://127\.0\.0\.1:(\d+)", log))]


def await_addresses(folder: Path) -> list[tuple[str, int]]:
    deadline = time.monotonic() + 60
    while len(addresses := addresses_in(folder)) < len(RUNS) and time.monotonic() < deadline:
        time.sleep(0.05)
    return addresses


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_no_process_and_no_file_behind(tmp_path, number, code):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    # A shell that runs us in the background ignores SIGINT, and so would the demo.
    listens = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from router.cli import main; "
    listens += "sys.exit(main(['demo']))"
    demo = subprocess.Popen(
        [sys.executable, "-c", listens], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    addresses = await_addresses(tmp_path)
    for line in demo.stdout:
        if line.startswith(b">"):
            break

    os.killpg(demo.pid, number) if number == signal.SIGINT else demo.send_signal(number)
    _, said = demo.communicate(timeout=60)

    assert demo.returncode == code
    assert said == b""
    assert list(tmp_path.iterdir()) == []
    assert len(addresses) == len(RUNS)
    for address in addresses:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
