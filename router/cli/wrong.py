"""`tandem wrong`."""

import argparse
import time
from pathlib import Path

import yaml

from router.cli import Ended
from router.cli.common import explained_faults, find_config_in_use, say
from router.cli.config_file import NewRule, add_rules, change_config
from router.cli.past.looking import add_past_arguments, open_past
from router.cli.past.sources import Past, PastTurn
from router.cli.tables import style_here
from router.cli.text import clean
from router.contract.words import Tier

EXAMPLES = ("wrong", "wrong fast", "wrong deep req_01J9", 'wrong deep --rule "security scan"')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_past_arguments(parser)
    parser.add_argument(
        "what",
        nargs="*",
        metavar="[fast|deep] [REQUEST]",
        help="the right tier (default: the other one); a request's id (default: the last turn)",
    )
    parser.add_argument(
        "--rule",
        metavar="WORDS",
        help="instead, add a rule for these words",
    )


def run(arguments: argparse.Namespace) -> int:
    tiers = [Tier(word) for word in arguments.what if word in tuple(Tier)]
    requests = [word for word in arguments.what if word not in tuple(Tier)]
    strange = [word for word in requests if not word.startswith("req_")]
    if strange:
        raise Ended(2, f"{strange[0]} is neither a tier (fast, deep) nor a request's id (req_...)")
    if len(tiers) > 1 or len(requests) > 1:
        raise Ended(2, "give at most one tier and one request, as in tandem wrong fast")
    if arguments.rule is not None and (arguments.url or arguments.key_env):
        raise Ended(2, "--rule writes into the config here, so it cannot be combined with --url or --key-env")
    if arguments.rule is not None and tiers:
        return _write_rule(arguments, tiers[0])
    past = open_past(arguments)
    turn = past.find_turn(requests[0] if requests else None, begins=True)
    if not tiers and turn.tier is None:
        raise Ended(2, f"no tier served {turn.id}\n  hint: name the right one, as in tandem wrong fast {turn.id}")
    should_be = tiers[0] if tiers else turn.tier.other if turn.tier else Tier.DEEP
    return _write_rule(arguments, should_be) if arguments.rule is not None else _mark(past, turn, should_be)


def _mark(past: Past, turn: PastTurn, should_be: Tier) -> int:
    marked = past.mark(turn.id, should_be)
    if not marked.is_marked:
        say(f"{turn.id} already went to {should_be}: {'its mark was removed' if marked.was_unmarked else 'nothing was marked'}")
        return 0 if marked.was_unmarked else 1
    why = f"It went to {turn.tier} because: {clean(turn.because or '', style_here())}" if turn.tier else "No tier served it."
    print(f"marked {turn.id}: should have gone to {should_be}. {why}")
    say("it counts as redone; for turns like it, add a rule with --rule WORDS")
    return 0


def _write_rule(arguments: argparse.Namespace, tier: Tier) -> int:
    """An earlier rule with these words would win."""
    words = " ".join(arguments.rule.split())
    if not any(map(str.isalnum, words)):
        raise Ended(2, '--rule needs words, as in tandem wrong deep --rule "security scan"')
    with explained_faults():
        path = find_config_in_use(arguments.config)
    there = _find_rule(path, words)
    if there is not None:
        number, other = there
        if other == tier:
            say(f"nothing was written: rule {number} of the config already sends {words!r} to {tier}")
            return 0
        raise Ended(1, f"not applied: rule {number} of the config already decides about {words!r}\n  hint: change that line")
    rule = NewRule(words, tier, f"tandem wrong, {time.strftime('%Y-%m-%d')}")
    change_config(path, lambda text: add_rules(text, [rule]))
    print(f"turns with {words!r} go to {tier} from now on")
    return 0


def _find_rule(path: Path | None, words: str) -> tuple[int, str | None] | None:
    try:
        rules = yaml.safe_load(path.read_text(encoding="utf-8"))["rules"] if path is not None else None
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return None  # reported when the file is written
    for number, rule in enumerate(rules if isinstance(rules, list) else (), 1):
        when = rule.get("when") if isinstance(rule, dict) else None
        named = when.get("words") if isinstance(when, dict) and len(when) == 1 else None
        known = [named] if isinstance(named, str) else named if isinstance(named, list) else []
        if any(str(one).lower().split() == words.lower().split() for one in known):
            return number, rule.get("tier")
    return None
