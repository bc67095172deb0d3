"""The `tandem` command. Each command is a module; only the one that runs is imported."""

import argparse
import contextlib
import gc
import importlib
import os
import sys
from types import ModuleType

COMMANDS = {
    "serve": "run the router",
    "demo": "play a coding afternoon on simulated tiers and show which one serves each turn, and why",
    "init": "write a config.yaml for the keys and local servers found here",
    "run": "run a command with its own router, for CI and scripts",
    "reload": "have a running router take its config again",
    "service": "start the router at login, as a user service",
    "connect": "connect a coding client to the router, permanently or for one run",
    "keys": "give callers keys, and list, rotate or revoke them",
    "check": "check the config and print every problem at once",
    "stores": "show how the stores are that several routers share, or migrate them",
    "doctor": "check everything the router needs and suggest how to fix problems",
    "explain": "show where a request would go, and why, without sending it",
    "delegate": "hand a task to the router, which works on it in the background",
    "jobs": "list background work, watch it, collect its answers, cancel it",
    "mcp": "serve delegation to a coding agent as tools, over the Model Context Protocol",
    "top": "show the turns of a running router as they happen, here or on another machine",
    "log": "show the latest turns",
    "sessions": "show the latest sessions, one per line",
    "stats": "summarize turns, tokens, cost and time, compared with all-deep and all-fast",
    "why": "explain why the last turn went where it did",
    "wrong": "mark the last turn as misjudged, for tune to learn from",
    "forget": "delete everything kept about one caller",
    "replay": "decide your past turns again and show what would change",
    "tune": "adjust the decision to your past turns",
    "eval": "measure the decision on labelled turns, locally or on a running router",
    "statusline": "print the tier of a Claude Code session, for its status line",
    "completion": "print a shell completion script",
}


class Ended(Exception):
    """A command cannot continue. It prints this text and exits with this status."""

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
    except OSError as error:  # what a command did not foresee: a folder that is gone, a disk that is full
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
        _refuse_strange(commands[parsed.command], strange)
    code: int = _load(parsed.command).run(parsed)
    return code


def cut_off_rest(given: list[str]) -> tuple[list[str], list[str]]:
    """The arguments before `--` and after it. `argparse` accepts no positional arguments once it has seen an option."""
    index = given.index("--") if "--" in given else len(given)
    return given[:index], given[index + 1 :]


def build_parser(loaded: set[str]) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and that of each command. Only named commands get their arguments: the others are not imported."""
    parser = argparse.ArgumentParser(
        prog="tandem", description="One endpoint, two models: every coding turn goes to the tier that finishes it sooner."
    )
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands = {name: subparsers.add_parser(name, help=summary) for name, summary in COMMANDS.items()}
    for name in loaded:
        fill_parser(commands[name], name)
    return parser, commands


def fill_parser(parser: argparse.ArgumentParser, name: str) -> None:
    """Give a command's parser its arguments, what it is for, and its examples."""
    module, summary = _load(name), COMMANDS[name]
    parser.description = summary[0].upper() + summary[1:] + "."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["examples:", *(f"  tandem {example}" for example in module.EXAMPLES)])
    module.add_arguments(parser)


class ShowVersion(argparse.Action):
    """`--version`. Looked up only when asked for: it takes as long as all the rest of `--help`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"tandem {installed_version() or '(not installed)'}")
        parser.exit()


def installed_version() -> str:
    """The version of the installed package; empty if it runs without being installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tandem-router")
    except PackageNotFoundError:
        return ""


def _say_unknown(name: str) -> int:
    near = _close_to(name, COMMANDS)
    print(f'tandem: unknown command "{name}"{f". Did you mean {near}?" if near else ""}', file=sys.stderr)
    print("  hint: tandem --help lists the commands", file=sys.stderr)
    return 2


def _refuse_strange(parser: argparse.ArgumentParser, strange: list[str]) -> None:
    options = [option for action in parser._actions for option in action.option_strings]  # argparse has no public list
    near = next((near for word in strange if word.startswith("-") and (near := _close_to(word, options))), "")
    parser.error(f"unrecognized arguments: {' '.join(strange)}{f'. Did you mean {near}?' if near else ''}")


def _close_to(word: str, known: "list[str] | dict[str, str]") -> str:
    import difflib  # only for those who mistype

    return next(iter(difflib.get_close_matches(word.partition("=")[0], list(known), n=1)), "")


def _open_streams() -> None:
    """Replace standard streams that the parent process closed."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115  open to the end
            setattr(sys, name, nowhere)


def _close_output() -> None:
    """Discard output that nobody reads any more; otherwise the interpreter complains at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load(name: str) -> ModuleType:
    """A command's module, imported with the garbage collector off.

    Imported objects stay, and the collector would scan them a hundred times: 40 ms of a start.
    """
    path = f"router.cli.{name}"
    if path in sys.modules:
        return sys.modules[path]
    gc.disable()
    try:
        return importlib.import_module(path)
    finally:
        gc.freeze()
        gc.enable()
