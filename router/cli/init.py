"""`tandem init`: writes a config for the keys and local servers found. All names come from the presets."""

import argparse
import contextlib
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from router.cli import Ended
from router.cli.common import add_yes_argument, command_name, free_backup, readable, say
from router.cli.config_file import write_private
from router.cli.setup.around import (
    Found,
    LocalOffers,
    add_quotas,
    look_around,
    offer_locals,
    say_litellm_keys,
    say_windows,
    with_local_model,
)
from router.cli.setup.engines import Reached
from router.cli.setup.findings import look_at_windows
from router.cli.setup.interview import Interview
from router.cli.setup.pair import look_at_pair
from router.cli.setup.presets import Offer, Presets, read_presets
from router.config.faults import close_to
from router.config.load import ConfigError, check_config, default_text
from router.config.reading import EnvFileUnreadable, read_env_file
from router.connect import KEY
from router.connect.recipe import installed_clients, known_clients, load_recipe
from router.contract.extras import how_to_install
from router.contract.words import Tier
from router.stores.folders import make_folders
from router.wiring.build import known_names

EXAMPLES = (
    "init",
    "init --yes",
    "init --yes --fast groq --deep anthropic --deep openai",
    "init --plan claude",
    "init --print --offline",
)
_LOCAL_AT_PORT = re.compile(r"[a-z]+-\d+")
"""A local server at an unusual port, such as llamacpp-8000."""
_EXAMPLE = re.compile(r"^# A target with a key.*?(?=^tiers:)", re.MULTILINE | re.DOTALL)
_TARGETS = {tier: re.compile(rf"(?<=^  {tier}:\n    targets:\n)(?:      .*\n|\n(?=      ))+", re.MULTILINE) for tier in Tier}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="FILE", default="config.yaml", help="where to write (default: config.yaml)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file (a copy is kept)")
    parser.add_argument("--print", action="store_true", help="print what would be written, and change no file")
    add_yes_argument(parser, ": accept the defaults")
    for tier in Tier:
        parser.add_argument(
            f"--{tier}",
            action="append",
            metavar="PROVIDER[:MODEL]",
            help=f"a provider for {tier}; repeatable",
        )
    parser.add_argument(
        "--plan",
        action="append",
        choices=("claude", "chatgpt"),
        help="deep is the plan your client is logged in with; --deep adds providers",
    )
    parser.add_argument("--offline", action="store_true", help="ask no provider or local server")


def run(arguments: argparse.Namespace) -> int:
    output, presets = Path(arguments.output), read_presets().with_plans(plans := dict.fromkeys(arguments.plan or ()))
    if problem := _find_usage_problem(arguments, output, presets):
        raise Ended(2, problem)
    try:
        values = {**read_env_file(output.parent), **{name: value for name, value in os.environ.items() if value.strip()}}
        # What `tandem connect env` gave to clients is not a key.
        values = {name: value for name, value in values.items() if value.strip() != KEY}
    except EnvFileUnreadable as error:
        raise Ended(2, f"{output.parent / '.env'}: {error}") from error
    around = look_around(presets, values, is_offline=arguments.offline)
    found = {name: one for name, one in around.items() if not one.reached.is_refused}
    refused = [one for name, one in around.items() if name not in found]
    for one in refused:
        say(f"  hint: {one.provider.title}: {one.reached.hint}")
    for plan in (presets.plans[name][Tier.DEEP].provider for name in plans):
        found[plan.name] = Found(plan, "", Reached())
    has_others = say_litellm_keys(presets, values)
    if refused and not found:
        hint = f"{command_name()} init --offline writes a config without asking them"
        raise Ended(1, f"no usable key or local server: nothing was written\n  hint: {hint}")
    if not found and output.exists() and not arguments.print:
        raise Ended(1, f"found no key and no local server: {output} was not changed")
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not arguments.yes and not arguments.print
    chosen = _choose(arguments, presets, found, values, Interview(asks=asks), refused)
    if not any(chosen.values()):
        _say_nothing_found(presets, has_others=has_others)
    written = _compose(default_text(), chosen, found)
    try:
        loaded = check_config(written, str(output), output.parent, known_names())
    except ConfigError as error:
        raise Ended(1, "\n".join(["the resulting config is not valid:", *map(str, error.faults)])) from error
    for finding in (*look_at_windows(loaded), *look_at_pair(loaded)):
        say(f"{finding.text}\n  hint: {finding.hint}")
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    if arguments.print:
        print(written, end="")
        return 0
    is_all_plan = all(offer.provider.is_plan for offers in chosen.values() for offer in offers)
    return _write(output, written, _list_connections(plans, with_others=not is_all_plan), is_simulated=not any(chosen.values()))


def _find_usage_problem(arguments: argparse.Namespace, output: Path, presets: Presets) -> str:
    if output.is_dir():
        return f"{output} is a folder\n  hint: --output {output / 'config.yaml'}"
    if output.exists() and not arguments.force and not arguments.print:
        return (
            f"{output} already exists and was not changed"
            "\n  hint: --force overwrites it; --output FILE writes to another file (then: tandem serve --config FILE)"
        )
    for tier in Tier:
        for given in getattr(arguments, tier) or ():
            name = given.partition(":")[0]
            if name not in presets.providers and not _LOCAL_AT_PORT.fullmatch(name):
                known = ", ".join(presets.providers)
                return f'--{tier} {given}: unknown provider "{name}"\n  hint: {close_to(name, presets.providers)}known: {known}'
    return f"{output.parent} is not a folder" if output.parent.exists() and not output.parent.is_dir() else ""


def _choose(
    arguments: argparse.Namespace,
    presets: Presets,
    found: Mapping[str, Found],
    values: Mapping[str, str],
    interview: Interview,
    refused: Sequence[Found] = (),
) -> dict[Tier, list[Offer]]:
    """The targets of each tier: by flags, else by answers, else all found."""
    is_named = any(getattr(arguments, tier) for tier in Tier)
    is_alone = not is_named and all(one.provider.is_local for one in found.values())
    chosen, local = dict[Tier, list[Offer]](), offer_locals(presets, found, is_alone=is_alone)
    usable = presets.usable({*found, *(one.reached.engine.kind for one in found.values())})
    for tier in Tier:
        named = [given.partition(":") for given in getattr(arguments, tier) or ()]
        if named:
            absent = next((name for name, _, _ in named if name not in found), "")
            if absent:
                is_refused = any(one.provider.name == absent for one in refused)
                problem = f"--{tier} {absent}: its key cannot be used; see above"
                raise Ended(2, problem if is_refused else _say_absent(absent, presets, found, tier))
            others = getattr(arguments, tier.other) or ()
            here = {offer.provider.name: offer for offer in local.all}
            wanted = [
                (here.get(name) or presets.find(tier, name, serves_both=name in others), model) for name, _, model in named
            ]
            paid = [offer for offer in usable[tier] if offer.provider.is_plan and tier is Tier.DEEP]
            chosen[tier] = paid + [_name_model(offer, model, found) for offer, model in wanted if offer is not None]
        else:
            hosted = [offer for offer in usable[tier] if not offer.provider.is_local]
            chosen[tier] = _ask_offers(tier, hosted, local, found, interview)
        chosen[tier] = [_with_facts(offer.filled(values), presets) for offer in chosen[tier]]
    _share(chosen)
    add_quotas(chosen, found)
    say_windows(chosen, found)
    return chosen


def _ask_offers(
    tier: Tier, hosted: list[Offer], local: LocalOffers, found: Mapping[str, Found], interview: Interview
) -> list[Offer]:
    """Proposed ones come first and are the default. Next to a plan, nothing that costs more is."""
    proposed = [offer for offer in hosted if offer.provider.is_plan] or [*hosted, *local.proposed[tier]]
    others = [offer for offer in (*hosted, *local.all) if offer not in proposed] if proposed else []
    if others and proposed[0].provider.is_plan:
        say(f"{tier} is your plan alone; --{tier} {others[0].provider.name} adds one for when it is used up")
    offers = [*proposed, *others]
    count = Counter(offer.provider.title for offer in offers)
    where = (f" at {offer.provider.base_url}" if count[offer.provider.title] > 1 else "" for offer in offers)
    titles = [f"{one.provider.title}, {readable(_pick(one, found))}{at}" for one, at in zip(offers, where, strict=True)]
    question = f"Who serves {tier}? The first is preferred, the others take over when it fails."
    picked = interview.choose_many(question, titles, range(len(proposed)))
    return [_ask_model(offers[index], found, interview) for index in picked]


def _say_absent(name: str, presets: Presets, found: Mapping[str, Found], tier: Tier) -> str:
    provider = presets.providers.get(name)
    if provider is None:
        servers = ", ".join(one.provider.name for one in found.values() if one.provider.is_local) or "none"
        return f"--{tier} {name}: no such server was found here\n  hint: local servers that were found: {servers}"
    there = next((one.provider for one in found.values() if one.provider.base_url == provider.base_url), None)
    how = f"set {' or '.join(provider.keys)}" if provider.keys else f"start it at {provider.base_url}"
    if there is not None:
        how = f"the server at {provider.base_url} is {there.title}: --{tier} {there.name}"
    return f"--{tier} {provider.name}: {provider.title} was not found here\n  hint: {how}"


def _pick(offer: Offer, found: Mapping[str, Found]) -> str:
    if offer.provider.is_local:
        return offer.model
    return offer.choose(found[offer.provider.name].reached.models) or offer.model


def _ask_model(offer: Offer, found: Mapping[str, Found], interview: Interview) -> Offer:
    listed = found[offer.provider.name].reached.models
    usual = _pick(offer, found)
    if offer.provider.is_plan or (offer.provider.is_local and len(listed) == 1):
        return offer
    if listed and usual not in listed:
        say(f"{offer.provider.title} does not list {usual} or anything like it: set its model by hand")
    model = interview.choose_model(f"{offer.provider.title} for {offer.tier}", usual, listed)
    return _with_model(offer, model, found)


def _name_model(offer: Offer, model: str, found: Mapping[str, Found]) -> Offer:
    listed = found[offer.provider.name].reached.models
    if model and listed and model not in listed:
        say(f"{offer.provider.title} does not list {model}; {close_to(model, listed)}using it as given")
    return _with_model(offer, model or _pick(offer, found), found)


def _with_model(offer: Offer, model: str, found: Mapping[str, Found]) -> Offer:
    one = found[offer.provider.name]
    return with_local_model(offer, model, one) if offer.provider.is_local else offer.with_model(model)


def _with_facts(offer: Offer, presets: Presets) -> Offer:
    known = presets.with_own_facts(offer)
    if "window_tokens" not in known.facts:
        say(f"the window, abilities and price of {known.model} ({known.provider.title}) are not known here")
        say(f"  hint: set window_tokens, accepts and price in its block; {how_to_install('litellm')} adds a table of models")
    return known


def _share(chosen: dict[Tier, list[Offer]]) -> None:
    for tier in Tier:
        if not chosen[tier] and chosen[tier.other]:
            say(f"found no target for {tier}: both tiers use the same models, so the choice makes no difference")
            known = chosen[tier.other][0].provider
            say(f"  hint: --{tier} {known.name}:MODEL names another model of {known.title}, if it has one")
            chosen[tier] = list(chosen[tier.other])


def _say_nothing_found(presets: Presets, *, has_others: bool) -> None:
    variables = [name for provider in presets.providers.values() for name in provider.keys[:1]]
    which = "no key that it can use" if has_others else "no key"
    say(f"found {which} and no local server: keeping the simulated tiers")
    say(f"  hint: set one of {', '.join(variables)}, in the environment or in .env, and run tandem init again")
    say("  hint: --plan claude or --plan chatgpt uses the plan that Claude Code or Codex is logged in with")


def _compose(text: str, chosen: Mapping[Tier, Sequence[Offer]], found: Mapping[str, Found]) -> str:
    if not any(chosen.values()):
        return text
    names = Counter(offer.provider.name for offers in chosen.values() for offer in offers)
    for tier in Tier:
        blocks = []
        for offer in chosen[tier]:
            name = offer.provider.name
            blocks.append(offer.write(f"{name}-{tier}" if names[name] > 1 else name, found[name].variable))
        text = _TARGETS[tier].sub(lambda _, blocks=blocks: "\n".join(blocks), text, count=1)  # type: ignore[misc]  # the default
    return _EXAMPLE.sub("", text).replace(
        "# Tandem's settings. Two simulated tiers answer, so no key is needed.",
        "# Tandem's settings, written by `tandem init` for the keys and local servers that it found.",
    )


def _write(output: Path, text: str, connections: Sequence[tuple[str, str]], *, is_simulated: bool) -> int:
    fresh = output.with_name(f".{output.name}.new")
    mode = output.stat().st_mode & 0o755 if output.exists() else 0o600  # keys may be added later
    try:
        make_folders(output.parent)
        write_private(fresh, text.encode(), mode)  # the old file is moved only once this is complete
        if output.exists():
            backup = free_backup(output)
            output.replace(backup)
            say(f"kept the old file as {backup}")
        fresh.replace(output)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise Ended(1, f"cannot write {output}: {error.strerror}\n  hint: --output FILE writes to another file") from error
    steps = [("serve", "runs the router"), *connections]
    if not is_simulated:
        steps.insert(0, ("check --live", "checks that every target answers"))
    say(f"wrote {output}. Next:")
    width = max(len(step) for step, _ in steps)
    for step, what in steps:
        say(f"  {command_name()} {step:<{width}}  {what}")
    return 0


def _list_connections(plans: Collection[str], *, with_others: bool) -> list[tuple[str, str]]:
    """Clients with a chosen plan first, installed or not. Other clients cannot use a plan."""
    having = [recipe for recipe in map(load_recipe, known_clients()) if recipe.login and recipe.login.plan in plans]
    kept = [(f"connect {recipe.client} --keep-login", f"points {recipe.name} at it, with its login") for recipe in having]
    others = [recipe for recipe in installed_clients() if recipe not in having] if with_others or not having else []
    plain = others or ([] if having else [load_recipe("codex")])
    return [*kept, *((f"connect {recipe.client}", f"points {recipe.name} at it") for recipe in plain)]
