"""The `tandem` command. Each command is a module; only the one that runs is imported."""

import argparse
import gc
import importlib
import sys
from types import ModuleType

COMMANDS = {
    "serve": "run the router",
    "init": "write a config.yaml for the keys and local servers found here",
    "check": "check the config and print every problem at once",
    "explain": "say where a request would go, and why, without sending it",
    "why": "say why the last turn went where it did",
    "wrong": "mark the last turn as misjudged, for tune to learn from",
    "replay": "decide your past turns again, and show what would change",
    "tune": "adjust the decision to your past turns",
    "eval": "measure the decision on labelled turns, here or on a running router",
    "train": "train the reading's weights on labelled turns",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit codes: 0 well, 1 failed, 2 wrong usage or config."""
    parser = argparse.ArgumentParser(
        prog="tandem", description="One endpoint, two models: every coding turn goes to the tier that finishes it sooner."
    )
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    given = sys.argv[1:] if arguments is None else arguments
    chosen = next((argument for argument in given if argument in COMMANDS), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == chosen:
            _load(name).add_arguments(command)
    parsed = parser.parse_args(given)
    if parsed.command is None:
        parser.print_help()
        return 2
    try:
        code: int = _load(parsed.command).run(parsed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    return code


class ShowVersion(argparse.Action):
    """`--version`. The version is looked up when it is asked for: that takes as long as all the rest of `--help`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"tandem {version('tandem-router')}")
        except PackageNotFoundError:
            print("tandem (not installed)")
        parser.exit()


def _load(name: str) -> ModuleType:
    """A command's module, imported with the garbage collector at rest.

    What is imported stays, and the collector would look through it a hundred times: 40 ms of a start.
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
