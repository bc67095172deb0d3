"""The command line as a person meets it."""

import argparse
import importlib
import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from router.cli import COMMANDS, GROUPS, build_parser, cut_off_rest, main
from tests.conftest import SIMULATED


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])

    assert caught.value.code == 0
    assert re.fullmatch(r"tandem (\d+\.\d+\.\d+\S*|\(not installed\))\n", capsys.readouterr().out)


def test_help_does_not_wait_for_what_only_the_version_or_a_command_needs():
    code = "import sys; from router.cli import main\ntry: main(['--help'])\nfinally: print([m for m in ('importlib.metadata', 'asyncio', 'pydantic') if m in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.splitlines()[-1] == "[]"


def test_a_command_is_imported_without_the_collector_which_works_again_afterwards():
    code = "import gc; from router.cli import main; main(['check', '--config', 'none.yaml']); print(gc.isenabled(), gc.get_freeze_count(), gc.get_stats()[2])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    is_enabled, frozen, rest = printed.splitlines()[-1].split(" ", 2)

    assert is_enabled == "True"
    assert int(frozen) > 10_000
    assert "'collections': 0" in rest


def test_help_lists_at_most_23_commands_in_groups_and_none_that_other_programs_run(capsys):
    assert main([]) == 2

    listed = re.findall(r"^  (\w+) +(.+)$", capsys.readouterr().out, re.MULTILINE)
    assert listed == [(name, COMMANDS[name]) for group in GROUPS.values() for name in group]
    assert len(listed) <= 23
    assert not {"statusline", "completion", "mcp"} & {name for name, _ in listed}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["explain"], 2, "give a text"),
        (["explain", "x", "--request", "y"], 2, "give a text"),
        (["explain", "  "], 2, "give a text"),
        (["explain", "x", "--header", "nocolon"], 1, "NAME:VALUE"),
        (["explain", "--request", "none.json"], 2, "No such file"),
        (["explain", "x", "--header", "x-tandem-tier: turbo"], 1, "fast, deep, auto"),
        (["serve", "--host", "0.0.0.0"], 2, "not a loopback address"),
        (["serve", "--config", "none.yaml"], 2, "No such file"),
    ],
)
def test_wrong_usage_is_said_plainly(here, capsys, arguments, code, said):
    assert main(arguments) == code
    assert said in capsys.readouterr().err


def run(folder, *arguments: str, **more) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more.pop("env", {})}
    code = "import sys; from router.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=environment,
        timeout=30,
        text=True,
        **{"capture_output": True, **more},
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_its_parser_takes(name, capsys):
    examples = importlib.import_module(f"router.cli.{name}").EXAMPLES

    assert examples
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])
        assert words[0] == name
        build_parser({name})[0].parse_args(cut_off_rest(words)[0])
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert f"examples:\n  tandem {examples[0]}\n" in capsys.readouterr().out


def test_an_option_means_the_same_in_every_command():
    """Its kind, the name of its value, and the words before the first mark of punctuation of its help."""
    meanings: dict[str, dict[tuple, list[str]]] = {}
    for name, parser in build_parser(set(COMMANDS))[1].items():
        for action in parser._actions:
            meaning = (type(action), action.metavar, re.split(r"[,:;.(]", action.help or "")[0].strip())
            for option in action.option_strings if action.help is not argparse.SUPPRESS else ():
                meanings.setdefault(option, {}).setdefault(meaning, []).append(name)

    assert {option: found for option, found in meanings.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serv"], 'unknown command "serv". Did you mean serve?'),
        (["xyzzy"], 'unknown command "xyzzy"\n'),
    ],
)
def test_a_command_that_is_mistyped_is_told_what_it_may_have_meant(arguments, said, capsys):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--prot", "1"], "Did you mean --port?"),
        (["serve", "--port", "80000"], '"80000" is not a number from 0 to 65535'),
        (["demo", "--speed", "11"], '"11" is not a number from 1 to 10'),
        (["check", "--timeout", "900"], '"900" is not a number from 0.1 to 600'),
        (["explain", "x", "--after", "y", "--calls", "201"], '"201" is not a number from 0 to 200'),
        (["log", "-n", "0"], '"0" is not a number from 1 to 100000'),
        (["log", "--since", "tuesday"], "neither a time ago (30m, 2h, 7d) nor a day"),
        (["check", "--timeout", "soon"], '"soon" is not a number from 0.1 to 600'),
    ],
)
def test_an_option_that_is_mistyped_is_told_what_would_be_right(arguments, said, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert said in capsys.readouterr().err


COMMAND_LINES = [
    ["check"],
    ["check", "--live", "--no-calls"],
    ["explain", "fix the typo"],
    ["why"],
    ["replay"],
    ["wrong"],
    ["init", "--offline", "--force"],
]


@pytest.mark.parametrize("arguments", COMMAND_LINES, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("damage", ["a folder", "not UTF-8", "nothing", "no YAML"])
def test_no_config_brings_a_traceback(folder, arguments, damage, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    config = folder / "config.yaml"
    if damage == "a folder":
        config.mkdir()
    else:
        config.write_bytes({"not UTF-8": b"\xff\xfe", "nothing": b"", "no YAML": b"{"}[damage])
    named = [] if arguments[0] == "init" else ["--config", "config.yaml"]

    assert main([*arguments, *named]) in (0, 1, 2)
    assert capsys.readouterr().err


def run_all(folder, before: str, command_lines: list[list[str]], environment: dict[str, str]) -> subprocess.CompletedProcess:
    """Run commands one after another in a process of their own, which imports them after `before`. Prints their statuses."""
    code = f"""import json, sys
{before}
from router.cli import main
def status_of(arguments):
    print("tandem", *arguments, file=sys.stderr)
    try:
        return main(arguments)
    except SystemExit as error:
        return error.code
found = [status_of(arguments) for arguments in json.loads(sys.argv[1])]
print()
print(json.dumps(found))"""
    return subprocess.run(
        [sys.executable, "-P", "-c", code, json.dumps(command_lines)],
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("before", "has_home", "more"),
    [
        ("import pwd\ndef nobody(_): raise KeyError\npwd.getpwuid = nobody", False, []),
        (
            "import os; gone = os.path.join(os.getcwd(), 'gone'); os.mkdir(gone); os.chdir(gone); os.rmdir(gone)",
            True,
            [["serve", "--port", "0", "--config", "c.yaml"]],
        ),
    ],
    ids=["no home", "a folder that was deleted"],
)
def test_no_surroundings_bring_a_traceback(folder, before, has_home, more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HOME", "TANDEM_"))}
    command_lines = [*COMMAND_LINES, *more]

    done = run_all(folder, before, command_lines, {**os.environ, "HOME": str(folder)} if has_home else environment)

    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    statuses = json.loads(done.stdout.splitlines()[-1])
    assert len(statuses) == len(command_lines)
    assert {0, 1, 2} >= set(statuses)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [["check"], ["explain", "x"], ["completion", "bash"], ["init", "--print", "--offline"]],
    ids=lambda arguments: arguments[0],
)
def test_a_disk_that_is_full_is_said_and_no_traceback(folder, arguments):
    (folder / "config.yaml").write_text(SIMULATED)
    with open("/dev/full", "w") as full:
        done = run(folder, *arguments, stdout=full, stderr=subprocess.PIPE, capture_output=False)

    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_bring_no_traceback(folder, closing):
    (folder / "config.yaml").write_text(SIMULATED)
    command = f"{shlex.quote(sys.executable)} -m router.cli check {closing}"

    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.returncode == 0
    assert done.stderr in ("", "config.yaml: nothing to fix\n")


def test_a_reader_that_leaves_brings_no_traceback(folder):
    (folder / "config.yaml").write_text(SIMULATED)
    reading, writing = os.pipe()
    os.close(reading)

    done = run(folder, "completion", "bash", stdout=writing, stderr=subprocess.PIPE, capture_output=False)

    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("moment", ["import", "run"])
def test_ctrl_c_ends_a_command_quietly_at_any_moment(folder, moment):
    """A signal that comes while a command is imported, and one that comes while it runs."""
    hook = {
        "import": "import builtins; real = builtins.__import__\ndef stop(name, *a, **k):\n    if name == 'router.wiring.build': builtins.__import__ = real; os.kill(os.getpid(), signal.SIGINT)\n    return real(name, *a, **k)\nbuiltins.__import__ = stop",
        "run": "import router.cli.check as check; check.run = lambda _: os.kill(os.getpid(), signal.SIGINT)",
    }[moment]
    code = f"import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n{hook}\nfrom router.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run(
        [sys.executable, "-c", code, "check"], cwd=folder, env=environment, capture_output=True, text=True, timeout=30
    )

    assert (done.returncode, done.stderr) == (130, "")
