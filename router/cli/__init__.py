"""The `tandem` command. Each command is a module, imported only when it runs."""

import argparse
import contextlib
import gc
import importlib
import os
import sys
from types import ModuleType

from router.config.removed import say_removed

GROUPS = {
    "Start": {
        "serve": "run the router",
        "init": "write a config.yaml for the API keys and local servers found",
        "connect": "connect a coding client to the router",
        "check": "check what the router needs and suggest fixes",
        "demo": "play a coding afternoon on simulated tiers",
    },
    "Look": {
        "log": "show the latest turns, or follow them",
        "stats": "summarize turns, tokens, cost, time and savings",
        "why": "explain why the last turn went where it did",
        "explain": "show where a request would go, and why, without sending it",
    },
    "Teach": {
        "wrong": "mark the last turn as sent to the wrong tier",
        "replay": "decide your past turns again and show what would change",
    },
    "Delegate": {
        "delegate": "have the router work on a task in the background",
        "jobs": "list, watch, collect or cancel background jobs",
    },
    "Operate": {
        "status": "show whether a router of this config runs, and how",
        "stop": "stop a running router gracefully",
        "reload": "have a running router read its config again",
        "service": "start the router at login, as a user service",
        "run": "run a command with its own router, for CI and scripts",
        "ledger": "back up, restore, compact or show the router's files",
        "keys": "manage callers: their keys, rights and budgets",
    },
}

_UNLISTED = {
    "statusline": "print the tier for Claude Code's status line",
    "mcp": "give coding agents tools to delegate tasks, over MCP",
    "completion": "print a shell completion script",
}

COMMANDS = {name: summary for group in (*GROUPS.values(), _UNLISTED) for name, summary in group.items()}

_MORE_HELP = (
    "tandem COMMAND --help shows the options of a command, with examples; tandem --version the version.",
    "All options, and what exit codes mean: docs/reference/cli.md",
)


class Ended(Exception):
    """A command cannot continue: print this text and exit with this status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit codes: 0 success, 1 failure, 2 wrong usage or config."""
    _open_streams()
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except Ended as end:
        print(end.text, file=sys.stderr)
        return end.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _close_output()
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{where}{error.strerror or error}", file=sys.stderr)
        _close_output()
        return 1
    return code


def _run(given: list[str]) -> int:
    chosen = next((argument for argument in given if not argument.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS:
        return _say_unknown(chosen)
    parser, commands = build_parser({chosen} if chosen else set())
    given, rest = cut_off_rest(given) if chosen is not None and getattr(_load(chosen), "TAKES_REST", False) else (given, [])
    parsed, strange = parser.parse_known_args(given)
    if parsed.command is None:
        parser.print_help()
        return 2
    if rest:
        parsed.arguments = [*parsed.arguments, *rest]
    if strange:
        _refuse_strange(commands[parsed.command], parsed.command, strange)
    code: int = _load(parsed.command).run(parsed)
    return code


def cut_off_rest(given: list[str]) -> tuple[list[str], list[str]]:
    """The arguments before and after `--`. `argparse` takes no positional ones once it has seen an option."""
    index = given.index("--") if "--" in given else len(given)
    return given[:index], given[index + 1 :]


def build_parser(loaded: set[str]) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Only `loaded` commands are imported and get arguments."""
    parser = _Parser(prog="tandem")
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=argparse.ArgumentParser)
    commands = {name: subparsers.add_parser(name) for name in (*COMMANDS, *(loaded - COMMANDS.keys()))}
    for name in loaded:
        fill_parser(commands[name], name)
    return parser, commands


class _Parser(argparse.ArgumentParser):
    """Groups commands in its help, which `argparse` cannot do."""

    def format_help(self) -> str:
        width = max(map(len, COMMANDS)) + 2
        lines = [
            "usage: tandem COMMAND [options]",
            "",
            "One endpoint, two models: every coding turn goes to the tier that finishes it sooner.",
            "",
            "Start here: tandem demo needs no key. tandem init writes a config, and tandem serve runs it.",
        ]
        for group, commands in GROUPS.items():
            lines += ["", f"{group}:", *(f"  {name:<{width}}{summary}" for name, summary in commands.items())]
        return "\n".join([*lines, "", *_MORE_HELP, ""])


def fill_parser(parser: argparse.ArgumentParser, name: str) -> None:
    module, summary = _load(name), COMMANDS.get(name, "")
    parser.description = f"{summary[0].upper()}{summary[1:]}." if summary else None
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["examples:", *(f"  tandem {example}" for example in module.EXAMPLES)])
    module.add_arguments(parser)


class ShowVersion(argparse.Action):
    """`--version`. Looking it up takes as long as the rest of `--help`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"tandem {installed_version() or '(not installed)'}")
        parser.exit()


def installed_version() -> str:
    """Empty if not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tandem-router")
    except PackageNotFoundError:
        return ""


def _say_unknown(name: str) -> int:
    if line := say_removed("command", name):
        raise Ended(2, f"tandem {line}")
    near = _close_to(name, COMMANDS)
    print(f'tandem: unknown command "{name}"{f". Did you mean {near}?" if near else ""}', file=sys.stderr)
    print("  hint: tandem --help lists the commands", file=sys.stderr)
    return 2


def _refuse_strange(parser: argparse.ArgumentParser, command: str, strange: list[str]) -> None:
    for word in strange:
        if line := say_removed("option", f"{command} {word.partition('=')[0]}"):
            raise Ended(2, f"tandem {line}")
    options = [option for action in parser._actions for option in action.option_strings]  # argparse has no public list
    near = next((near for word in strange if word.startswith("-") and (near := _close_to(word, options))), "")
    parser.error(f"unrecognized arguments: {' '.join(strange)}{f'. Did you mean {near}?' if near else ''}")


def _close_to(word: str, known: "list[str] | dict[str, str]") -> str:
    import difflib  # only for typos

    return next(iter(difflib.get_close_matches(word.partition("=")[0], list(known), n=1)), "")


def _open_streams() -> None:
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115  open to the end
            setattr(sys, name, nowhere)


def _close_output() -> None:
    """Discard unread output, or the interpreter complains at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load(name: str) -> ModuleType:
    """Import a command's module with the garbage collector off, which saves 40 ms of scanning objects that stay."""
    path = f"router.cli.{name}"
    if path in sys.modules:
        return sys.modules[path]
    gc.disable()
    try:
        return importlib.import_module(path)
    finally:
        gc.freeze()
        gc.enable()
