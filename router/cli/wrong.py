"""`tandem wrong`."""

import argparse

from router.cli.common import add_config_argument, say
from router.cli.past.looking import find_ledger, find_recorded_turn
from router.cli.tables import style_here
from router.contract.words import Tier
from router.screen.text import clean
from router.stores.sqlite.files import StoreUnusable
from router.stores.sqlite.turns import find_beginning, mark_misjudged, unmark_misjudged

EXAMPLES = (
    "wrong",
    "wrong fast",
    "wrong deep req_01J9",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_config_argument(parser)
    parser.add_argument(
        "what",
        nargs="*",
        metavar="[fast|deep] [REQUEST]",
        help="the tier that would have been right (default: the other one), and a request's id (default: the last turn)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Mark a turn as misjudged, for `tandem tune`. Only its id is kept."""
    tiers = [Tier(word) for word in arguments.what if word in tuple(Tier)]
    requests = [word for word in arguments.what if word not in tuple(Tier)]
    strange = [word for word in requests if not word.startswith("req_")]
    if strange:
        say(f"{strange[0]} is neither a tier (fast, deep) nor a request's id (req_...)")
        return 2
    if len(tiers) > 1 or len(requests) > 1:
        say("give at most one tier and one request, as in tandem wrong fast")
        return 2
    path = find_ledger(arguments)
    turn = find_recorded_turn(path, requests[0] if requests else None)
    if requests:
        beginning = find_beginning(path, requests[0])
        if beginning is None:
            say(f"{requests[0]} does not belong to a turn that a person typed: nothing was marked")
            return 1
        turn = beginning
    if not tiers and turn.tier is None:
        say(f"no tier served {turn.id}\n  hint: name the right one, as in tandem wrong fast {turn.id}")
        return 2
    should_be = tiers[0] if tiers else turn.tier.other if turn.tier else Tier.DEEP
    try:
        if should_be is turn.tier:
            was_marked = unmark_misjudged(path, turn)
            say(f"{turn.id} already went to {should_be}: {'its mark was removed' if was_marked else 'nothing was marked'}")
            return 0 if was_marked else 1
        migrated = mark_misjudged(path, turn, should_be)
    except StoreUnusable as error:
        say(str(error))
        return 1
    if migrated is not None:
        say(f"{migrated.file} was migrated to schema {migrated.version}: the older file is kept as {migrated.copy.name}")
    why = f"It went to {turn.tier} because: {clean(turn.because or '', style_here())}" if turn.tier else "No tier served it."
    print(f"marked {turn.id}: should have gone to {should_be}. {why}")
    say("tandem tune gives it ten times the weight")
    return 0
