"""`tandem init`: a config for what is here. The ready blocks of the default config are its only source of names."""

import argparse
import json
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from router.cli.common import command_name, free_backup, say
from router.config.faults import missing_extra
from router.config.load import ConfigError, check_config, default_text
from router.contract.words import Tier
from router.wiring import known_names

_PROBE_SECONDS = 0.5
_BLOCK = re.compile(r"^      # - name: .*\n(?:      #   .*\n)+", re.MULTILINE)
_SIMULATED = re.compile(r"^      - name: simulated-.*\n(?:        .*\n)+", re.MULTILINE)
_ADVICE = re.compile(r"^      # (?!- name: )(?!  ).*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ready:
    """A ready block of the default config, uncommented."""

    name: str
    text: str
    variable: str
    base_url: str

    @property
    def is_local(self) -> bool:
        return "127.0.0.1" in self.base_url


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--output", metavar="FILE", default="config.yaml", help="where to write (default: config.yaml here)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file (a copy is kept)")
    parser.add_argument("--print", action="store_true", help="print it instead of writing")


def run(arguments: argparse.Namespace) -> int:
    """Look around, choose, write."""
    output = Path(arguments.output)
    if output.exists() and not arguments.force and not arguments.print:
        say(f"{output} already exists and was not changed")
        say("  hint: --force overwrites it; --output FILE writes to another file (then: tandem serve --config FILE)")
        return 2
    text = default_text()
    fast, deep = (_find_usable(_section(text, tier)) for tier in Tier)
    for ready in (*fast, *deep):
        say(f"found {ready.name}: {'a server on this machine' if ready.is_local else ready.variable}")
    if not fast and not deep and output.exists() and not arguments.print:
        say(f"found no key and no local server: {output} was not changed")
        return 1
    for tier, own, other in ((Tier.FAST, fast, deep), (Tier.DEEP, deep, fast)):
        if not own and other:
            say(f"found no target for {tier}: both tiers use the same models, so the choice makes no difference")
    if not fast and not deep:
        variables = sorted({ready.variable for tier in Tier for ready in _ready_blocks(_section(text, tier)) if ready.variable})
        say("found no key and no local server: the simulated tiers stay")
        say(f"  hint: set one of {', '.join(variables)}, and run tandem init again")
    written = _compose(text, fast, deep)
    try:
        check_config(written, str(output), output.parent, known_names())
    except ConfigError as error:
        say(f"the resulting config is not valid: {'; '.join(str(fault) for fault in error.faults)}")
        return 1
    if arguments.print:
        print(written, end="")
        return 0
    if not output.parent.is_dir():
        say(f"{output.parent} is not a folder")
        return 2
    if output.exists():
        backup = free_backup(output)
        output.replace(backup)
        say(f"kept the old file as {backup}")
    output.write_text(written, encoding="utf-8")
    say(f"wrote {output}. Next: {command_name()} check, {command_name()} serve")
    return 0


def _section(text: str, tier: Tier) -> str:
    """The part of the file that lists one tier's targets."""
    start = text.index(f"\n  {tier}:\n    targets:\n")
    end = text.index("\n  deep:\n", start) if tier is Tier.FAST else text.index("\n# The economics", start)
    return text[start:end]


def _ready_blocks(section: str) -> list[Ready]:
    blocks = []
    for match in _BLOCK.finditer(section):
        text = re.sub(r"^      # ", "      ", match.group(), flags=re.MULTILINE)
        key = _value(text, "api_key")
        variable = key.removeprefix("env:") if key.startswith("env:") else ""
        blocks.append(Ready(_value(text, "name"), text, variable, _value(text, "base_url")))
    return blocks


def _value(text: str, key: str) -> str:
    found = re.search(rf"^\s+(?:- )?{key}: (.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _find_usable(section: str) -> list[Ready]:
    """The blocks whose key is set, or whose server answers; a server's first model replaces the block's."""
    usable = []
    adapters = known_names().adapters
    for ready in _ready_blocks(section):
        extra = missing_extra(adapters[_value(ready.text, "adapter")])
        if extra and _read_variable(ready.variable):
            say(f"{ready.variable} is set; {ready.name} needs pip install 'tandem-router[{extra}]'")
            continue
        if ready.is_local:
            model = _probe(ready.base_url)
            if model:
                text = ready.text.replace(f"model: {_value(ready.text, 'model')}\n", f"model: {json.dumps(model)}\n")
                usable.append(Ready(ready.name, text, "", ready.base_url))
        elif _read_variable(ready.variable) and "YOUR-" not in ready.text:
            usable.append(ready)
        elif _read_variable(ready.variable) and (filled := _fill_azure(ready)):
            usable.append(filled)
    return usable


def _read_variable(name: str) -> str:
    """A variable's value, as a key is read: without what is around it."""
    return os.environ.get(name, "").strip()


def _fill_azure(ready: Ready) -> Ready | None:
    endpoint, deployment = _read_variable("AZURE_OPENAI_ENDPOINT"), _read_variable("AZURE_OPENAI_DEPLOYMENT")
    if not endpoint or not deployment:
        say(f"{ready.variable} is set; AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT are needed too")
        return None
    address = f"{endpoint.rstrip('/')}/openai/v1"
    text = ready.text.replace(ready.base_url, address).replace("YOUR-DEPLOYMENT", deployment)
    return Ready(ready.name, text, ready.variable, address)


def _probe(base_url: str) -> str:
    """The first model of a local server that speaks this API; empty without an answer."""
    try:
        with urllib.request.urlopen(f"{base_url}/models", timeout=_PROBE_SECONDS) as answer:  # noqa: S310  loopback only
            models = json.load(answer).get("data") or []
            return str(models[0]["id"]) if models else ""
    except (OSError, ValueError, KeyError, AttributeError, TypeError, urllib.error.URLError):
        return ""


def _compose(text: str, fast: list[Ready], deep: list[Ready]) -> str:
    """The default file with the usable blocks in, and the rest of the ready blocks left as they are."""
    if not fast and not deep:
        return text
    found = {Tier.FAST: fast, Tier.DEEP: deep}
    for tier in Tier:
        section = _section(text, tier)
        blocks, note = [ready.text for ready in found[tier]], ""
        if not blocks:
            note = f"      # No target was found for {tier}, so it uses the other tier's models.\n"
            blocks = [ready.text.replace(f"name: {ready.name}", f"name: {ready.name}-{tier}", 1) for ready in found[tier.other]]
        rest = _SIMULATED.sub("", section)
        for ready in found[tier]:
            rest = re.sub(rf"^      # - name: {re.escape(ready.name)}\n(?:      #   .*\n)+\n?", "", rest, flags=re.MULTILINE)
        head, _, tail = rest.partition("    targets:\n")
        text = text.replace(section, f"{head}    targets:\n{note}{''.join(blocks)}{_tidy(tail)}")
    return text.replace(
        "# Tandem's settings. Two simulated tiers answer, so no key is needed.",
        "# Tandem's settings, written by `tandem init` for the keys and local servers that it found.",
    )


def _tidy(tail: str) -> str:
    """Take out comments whose ready blocks are gone, and double empty lines."""
    kept = []
    lines = tail.splitlines(keepends=True)
    for index, line in enumerate(lines):
        following = next((entry for entry in lines[index + 1 :] if entry.strip()), "")
        if _ADVICE.match(line) and not following.startswith("      # - name:"):
            continue
        kept.append(line)
    tidy = re.sub(r"\n{3,}", "\n\n", "".join(kept))
    return tidy if tidy.startswith("\n") or not tidy.strip() else f"\n{tidy}"
