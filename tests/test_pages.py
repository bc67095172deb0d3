"""The tutorial and the README, followed command by command against a router that serves the simulated tiers."""

import json
import shutil
from pathlib import Path

import pytest

from tests.router.cli.told import TURNS
from tests.tools.histories import write_home
from tests.tools.pages import Step, looks_like, read_steps, reader

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs" / "start" / "first-ten-minutes.md"
PAGES = (TUTORIAL, ROOT / "README.md")

LABELLED = [("fix the typo", "quick"), ("rename x to y", "quick"), ("migrate the whole codebase to async, with tests", "long")]
"""What the README calls DATA.jsonl."""

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: the pages' requests are not sent")


@needs_curl
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_works_and_prints_what_the_page_shows(page, tmp_path):
    write_home(tmp_path, TURNS)
    (tmp_path / "DATA.jsonl").write_text("\n".join(json.dumps({"prompt": words, "label": label}) for words, label in LABELLED))
    steps = read_steps(page.read_text())
    followed = [step for step in steps if not step.not_run]

    with reader(tmp_path) as person:
        for step in followed:
            person.follow(step)
            if step == followed[0]:
                person.ask("fix the typo")
        person.stop_router()

    assert "make serve" in followed[0].commands[0]
    assert sum(len(step.commands) for step in followed) >= 5


@needs_curl
def test_the_two_requests_that_serve_prints_go_to_fast_and_to_deep(tmp_path):
    with reader(tmp_path) as person:
        person.follow(Step(0, ("make serve",), "…\nA quick edit:\n…\nA long task:\n…", None))
        quick, long = person.printed_curls

        person.follow(Step(0, (quick,), "HTTP/1.1 200 OK\n…\nx-tandem-tier: fast\n…\ndata: [DONE]", None))
        person.follow(Step(0, (f"{long} | head -3",), "HTTP/1.1 200 OK\n…\nx-tandem-tier: deep", None))
        person.stop_router()


PAGE = """\
1. Look.

    ```sh
    echo one     # a remark
    printf 'two
    words %s' \\
      three
    ```

    ```text
    two
    words …
    ```

    Then this is not its output:

```text
nothing
```

<!-- not run: it would take a day -->
```sh
sleep 86400
```

```sh
tandem explain "rename # it"   # fast: a quick edit
tandem explain "a # fast"
```
"""


def test_a_page_is_read_into_commands_with_what_it_shows_of_them():
    look, wait, explain = read_steps(PAGE)

    assert look.line == 4
    assert look.commands == ("echo one     # a remark", "printf 'two\nwords %s' \\\n  three")
    assert look.shown == "two\nwords …\n"
    assert wait.not_run == "it would take a day"
    assert explain.shown is None
    assert explain.tiers == ("fast", None)


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("one\n", "one", True),
        ("one\n", "one\ntwo\n", False),
        ("one\n…\n", "one\ntwo\nthree\n", True),
        ("…\nthree\n", "one\ntwo\nthree\n", True),
        ("took … s\n", "took 0.31 s\n", True),
        ("took … s\n", "took\n0.31 s\n", False),
        ("a+b\n", "aab\n", False),
    ],
)
def test_what_is_shown_is_held_to_what_is_printed(shown, printed, expected):
    assert looks_like(shown, printed) is expected


@pytest.mark.parametrize(
    "step",
    [
        Step(7, ("false",), None, None),
        Step(7, ("echo good",), "bad\n", None),
        Step(7, ('tandem explain "fix the typo"  # deep',), None, None),
        Step(7, ("make no-such-target",), None, None),
    ],
    ids=["a command fails", "another output", "another tier", "no such target"],
)
def test_a_page_that_is_wrong_fails_with_its_line(step, tmp_path):
    with reader(tmp_path, patience_seconds=0) as person, pytest.raises(AssertionError, match="line 7: "):
        person.follow(step)
