"""Every page with commands, followed command by command against a router that serves the simulated tiers."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.router.cli.told import TURNS
from tests.tools.histories import write_home
from tests.tools.ports import keepable_port

ROOT = Path(__file__).resolve().parents[1]
SHOWN_PORT = 4000
_BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]+?) -->\n\s*)?"
    r"^(?P<indent> *)```sh\n(?P<commands>.*?)^(?P=indent)```$"
    r"(?:\n\s*?^(?P=indent)```text\n(?P<shown>.*?)^(?P=indent)```$)?",
    re.MULTILINE | re.DOTALL,
)
_SERVES = (["make", "serve"], ["tandem", "serve"], [".venv/bin/tandem", "serve"])
_TIER = re.compile(r"\s#\s*(fast|deep)\b[^'\"]*$")
_START_SECONDS = 30


@dataclass(frozen=True)
class Step:
    """One block of commands, and what the page shows of it."""

    line: int
    commands: tuple[str, ...]
    shown: str | None
    not_run: str | None

    @property
    def tiers(self) -> tuple[str | None, ...]:
        """The tier that the page names after each command."""
        found = [_TIER.search(command) for command in self.commands]
        return tuple(match.group(1) if match else None for match in found)


def read_steps(text: str) -> list[Step]:
    """The blocks of commands of a page, in order."""
    steps = []
    for block in _BLOCK.finditer(text):
        shown = block["shown"]
        steps.append(
            Step(
                line=text.count("\n", 0, block.start("commands")) + 1,
                commands=tuple(split_commands(_outdent(block["commands"], block["indent"]))),
                shown=None if shown is None else _outdent(shown, block["indent"]),
                not_run=block["reason"],
            )
        )
    return steps


def _outdent(text: str, indent: str) -> str:
    return re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)


def split_commands(text: str) -> Iterator[str]:
    """The commands of a block: a line each, and further lines while a quote or a backslash at the end asks for them."""
    command = ""
    for line in text.splitlines():
        command += line
        if command.endswith("\\") or not _is_closed(command):
            command += "\n"
        elif shlex.split(command, comments=True):
            yield command
            command = ""
        else:
            command = ""
    if command:
        raise AssertionError(f"a command has no end: {command}")


def _is_closed(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def looks_like(shown: str, printed: str) -> bool:
    """Whether a command printed what a page shows of it."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == "…" else ".*?".join(map(re.escape, line.split("…"))) + r"\n" for line in _lines(shown)
    ]
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


class Reader:
    """A person with a fresh checkout, a terminal for the router and another one for everything else."""

    def __init__(self, folder: Path, patience_seconds: float) -> None:
        self.folder, self.patience_seconds = folder, patience_seconds
        self.port = keepable_port()
        self.router: subprocess.Popen[str] | None = None
        self.screen: list[str] = []
        shutil.copy(ROOT / "config.yaml", folder)
        (folder / ".curlrc").write_text("silent\n")
        tandem = folder / ".venv" / "bin" / "tandem"
        tandem.parent.mkdir(parents=True)
        tandem.write_text(f"#!{sys.executable}\nimport sys\n\nfrom router.cli import main\n\nsys.exit(main())\n")
        tandem.chmod(0o755)
        self.environment = {
            "PATH": f"{tandem.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "OPENAI_API_KEY": "sk-of-the-reader",
        }

    def follow(self, step: Step) -> None:
        """Run a block. Raises an AssertionError that names the line of the page."""
        for command, tier in zip(step.commands, step.tiers, strict=True):
            shown = step.shown if command == step.commands[-1] else None
            self._run(command, tier, shown, f"line {step.line}: {command}")

    def _run(self, command: str, tier: str | None, shown: str | None, place: str) -> None:
        printed, code = self._type(command)
        until = time.monotonic() + self.patience_seconds
        # The router may still be writing its first lines, or the last request's row in the ledger.
        while shown is not None and not looks_like(shown, printed) and time.monotonic() < until:
            time.sleep(0.1)
            printed, code = self._type(command, is_again=True)
        assert code == 0, f"{place}\nended with {code}:\n{printed}"
        assert tier is None or printed.split()[0] == tier, f"{place}\nprinted:\n{printed}"
        assert shown is None or looks_like(shown, printed), f"{place}\nprinted:\n{printed}\nand the page shows:\n{shown}"

    def _type(self, command: str, *, is_again: bool = False) -> tuple[str, int]:
        """What a command prints, and how it ends."""
        words = shlex.split(command, comments=True)
        if words in _SERVES:
            if not is_again:
                self.start_router()
            return "".join(list(self.screen)), 0
        if words[0] == "make":
            # Whether the target is there. What it does is for its own tests: some would run this one.
            command = f"make --dry-run --no-print-directory -C {shlex.quote(str(ROOT))} {words[1]}"
        return self._shell(command)

    def _shell(self, command: str) -> tuple[str, int]:
        done = subprocess.run(
            ["sh", "-c", command.replace(f":{SHOWN_PORT}", f":{self.port}")],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=60,
        )
        return done.stdout.replace(f":{self.port}", f":{SHOWN_PORT}"), done.returncode

    def start_router(self) -> None:
        """Serve in place of what served before."""
        self.stop_router()
        self.router = subprocess.Popen(
            [".venv/bin/tandem", "serve", "--port", str(self.port), "--log", "text"],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.screen = []
        self._watching = threading.Thread(target=self._watch, args=(self.router,), daemon=True)
        self._watching.start()
        until = time.monotonic() + _START_SECONDS
        while not self._is_answering():
            assert self.router.poll() is None and time.monotonic() < until, "".join(self.screen)  # noqa: PT018
            time.sleep(0.02)

    def _watch(self, router: subprocess.Popen[str]) -> None:
        assert router.stderr is not None
        for line in router.stderr:
            self.screen.append(line.replace(f":{self.port}", f":{SHOWN_PORT}"))

    def _is_answering(self) -> bool:
        """By a whole answer: the port takes connections before Ctrl-C is listened for."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=1):
            return True
        return False

    def ask(self, words: str) -> None:
        """Send a request of one's own, as every page invites to."""
        body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": words}]})
        request = f"http://127.0.0.1:{SHOWN_PORT}/v1/chat/completions -H 'content-type: application/json'"
        self.follow(Step(0, (f"curl --fail {request} -d {shlex.quote(body)}",), None, None))

    @property
    def printed_curls(self) -> list[str]:
        """The requests that the router printed, to paste."""
        return [line.strip() for line in list(self.screen) if line.startswith("  curl ")]

    def stop_router(self) -> None:
        """Ctrl-C, as the page says."""
        if self.router is not None:
            self.router.send_signal(signal.SIGINT)
            assert self.router.wait(20) == 0, "".join(self.screen)
            self.leave()

    def leave(self) -> None:
        """Close the router's terminal, whatever it shows."""
        if self.router is not None:
            self.router.kill()
            self.router.wait()
            self._watching.join()
            assert self.router.stderr is not None
            self.router.stderr.close()
            self.router = None


@contextlib.contextmanager
def reader(folder: Path, patience_seconds: float = 30) -> Iterator[Reader]:
    """A reader whose router is stopped in the end."""
    person = Reader(folder, patience_seconds)
    try:
        yield person
    finally:
        person.leave()


WRITTEN = [page for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]) if page.parent.name != "decisions"]
PAGES = [page for page in WRITTEN if any(not step.not_run for step in read_steps(page.read_text()))]
BEGINNINGS = ("README.md", "connect.md", "install.md")
"""Pages that say to start the router."""

CHAT = {"model": "auto", "messages": [{"role": "user", "content": "fix the typo"}]}
"""What pages call request.json."""
LABELLED = [("fix the typo", "quick"), ("rename x to y", "quick"), ("migrate the whole codebase to async, with tests", "long")]
"""What the README calls DATA.jsonl."""

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: the pages' requests are not sent")


@needs_curl
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_works_and_prints_what_the_page_shows(page, tmp_path):
    write_home(tmp_path, TURNS)
    (tmp_path / "request.json").write_text(json.dumps(CHAT))
    (tmp_path / "DATA.jsonl").write_text("\n".join(json.dumps({"prompt": words, "label": label}) for words, label in LABELLED))
    steps = read_steps(page.read_text())
    followed = [step for step in steps if not step.not_run]

    with reader(tmp_path) as person:
        if page.name not in BEGINNINGS:
            person.start_router()
            person.ask("fix the typo")
        for step in followed:
            person.follow(step)
            if step == followed[0] and page.name in BEGINNINGS:
                person.ask("fix the typo")
        person.stop_router()

    assert page.name not in BEGINNINGS or "make serve" in followed[0].commands[0]


def test_the_first_pages_are_mostly_followed_and_no_command_hides_in_another_kind_of_block():
    followed = {page.name: [step for step in read_steps(page.read_text()) if not step.not_run] for page in PAGES}

    for name in BEGINNINGS[:2]:
        assert sum(len(step.commands) for step in followed[name]) >= 5
    assert [
        page.name for page in WRITTEN if re.search(r"^ *```(bash|shell|console|zsh)$", page.read_text(), re.MULTILINE)
    ] == []


@needs_curl
def test_the_two_requests_that_serve_prints_go_to_fast_and_to_deep(tmp_path):
    with reader(tmp_path) as person:
        person.follow(Step(0, ("make serve",), "…\nA quick edit:\n…\nA long task:\n…", None))
        quick, long = person.printed_curls

        person.follow(Step(0, (quick,), "HTTP/1.1 200 OK\n…\nx-tandem-tier: fast\n…\ndata: [DONE]", None))
        person.follow(Step(0, (f"{long} | head -4",), "HTTP/1.1 200 OK\n…\nx-tandem-tier: deep", None))
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
