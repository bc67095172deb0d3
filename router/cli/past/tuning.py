"""Results of `tandem tune`, as text and JSON."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple

from router.cli.tables import style_here, write_table
from router.contract.economics import Offset
from router.contract.personal import Kind
from router.contract.request import Json, JsonObject
from router.contract.words import Tier
from router.past.marks import MAX_KINDS, Merged, Taught
from router.past.tune import Change, Fit, Tuning
from router.screen.figures import UNKNOWN, plural


def as_json(tuning: Tuning | None, present: Fit, known_turns: int, lacking: str) -> JsonObject:
    """The fit, or why there is none."""
    if tuning is None:
        return {"present": asdict(present), "fitted": None, "known_turns": known_turns, "because": lacking}
    return {
        "present": asdict(tuning.present),
        "fitted": asdict(tuning.fitted),
        "rules": [asdict(rule) for rule in tuning.rules],
        "learned_turns": tuning.learned_turns,
        "held_out_turns": tuning.held_out_turns,
        "held_out_sessions": tuning.held_out_sessions,
        "moved": tuning.moved,
        "regret_per_100": _change_json(tuning.regret_per_100),
        "log_loss": _change_json(tuning.log_loss),
        "may_harm": tuning.regret_per_100.may_harm,
        "offset_may_harm": tuning.offset_may_harm,
    }


def taught_json(taught: Taught) -> JsonObject:
    return {
        "turns": taught.marks,
        "kinds": len(taught.table.kinds),
        "right_before": taught.right_before,
        "right_after": taught.right_after,
        "other_turns": taught.others,
        "other_turns_moved": taught.others_moved,
    }


def kinds_json(kinds: Sequence[Kind]) -> list[Json]:
    return [
        {
            "tier": str(_tier_of(kind)),
            "log_odds": kind.log_odds,
            "marks": kind.marks,
            "at": kind.at or None,
            "callers": list(kind.callers),
            "requests": list(kind.requests),
        }
        for kind in kinds
    ]


def list_kinds(kinds: Sequence[Kind]) -> list[str]:
    """A table of what marks taught, newest first."""
    rows = [
        (
            f"asks like {plural(kind.marks, 'marked one')}",
            str(_tier_of(kind)),
            f"{kind.log_odds:+.1f}",
            time.strftime("%Y-%m-%d", time.localtime(kind.at)) if kind.at else UNKNOWN,
            ", ".join(kind.callers) or UNKNOWN,
            kind.requests[-1] if kind.requests else UNKNOWN,
        )
        for kind in sorted(kinds, key=lambda kind: -kind.at)
    ]
    titles = ("kind of ask", "go to", "log-odds", "learned", "by", "last marked request")
    return write_table(titles, rows, style_here(), left=titles)


def _tier_of(kind: Kind) -> Tier:
    return Tier.DEEP if kind.log_odds > 0 else Tier.FAST


def say_merged(merged: Merged) -> str:
    """What became of the kinds of ask, as one clause."""
    parts = (
        (merged.added, "added"),
        (merged.changed, "changed"),
        (merged.unchanged, "unchanged"),
        (merged.kept, "kept from before, whose marks are no longer in the history"),
        (merged.dropped, "dropped, whose marks were taken back or contradicted"),
    )
    told = ", ".join(f"{count} {what}" for count, what in parts if count)
    full = f"; a table has at most {MAX_KINDS}, so the oldest are left out" if len(merged.table.kinds) == MAX_KINDS else ""
    return f"{plural(len(merged.table.kinds), 'kind')} of ask ({told}){full}"


def _change_json(change: Change) -> JsonObject:
    before, after, low, high = (round(value, 4) for value in astuple(change))
    return {"before": before, "after": after, "interval": [low, high]}


def readable(tuning: Tuning) -> str:
    """The fit, its effect, and whether it may do harm."""
    present, fitted = tuning.present, tuning.fitted
    left = "  (not applied: the held-out part may get worse with it)" if tuning.rules and tuning.offset_may_harm else ""
    lines = [
        f"fitted to {tuning.learned_turns} earlier turns, tested on {tuning.held_out_turns} later ones"
        f" ({tuning.held_out_sessions} sessions)",
        "",
        f"decision.base_rate          {present.base_rate:g} → {fitted.base_rate:g}{left}",
        f"decision.personal_log_odds  {present.personal_log_odds:g} → {fitted.personal_log_odds:g}{left}",
        *_rules(tuning),
        "",
        f"tier changes    {tuning.moved} of {tuning.held_out_turns} turns",
        f"regret per 100  {_change(tuning.regret_per_100, 1)}",
        *([f"log loss        {_change(tuning.log_loss, 3)}"] if tuning.log_loss.before else []),
        "",
        "The held-out part may get worse." if tuning.regret_per_100.may_harm else "No sign of harm on the held-out part.",
    ]
    return "\n".join(lines)


def _rules(tuning: Tuning) -> list[str]:
    width = max((len(rule.words) for rule in tuning.rules), default=0)
    return [
        f"new rule                    {rule.words:<{width}} → {rule.tier}: right in {rule.right} of {rule.seen} earlier turns,"
        f" in {rule.held_out_right} of {rule.held_out_seen} later ones"
        for rule in tuning.rules
    ]


def _change(change: Change, digits: int) -> str:
    return (
        f"{change.before:.{digits}f} → {change.after:.{digits}f}"
        f" (change {change.low:+.{digits}f} to {change.high:+.{digits}f}; less is better)"
    )


def write_offsets(offsets: Mapping[str, Offset]) -> str:
    """What routers learn of each caller without `--apply`."""
    width = max(map(len, offsets))
    learned = sorted(offsets.items(), key=lambda item: item[1].log_odds)
    lines = (f"  {caller:<{width}}  {offset.log_odds:+.2f} from {plural(offset.turns, 'turn')}" for caller, offset in learned)
    return "\n".join(("learned by the router from what turns took (decision.personal: off switches it off)", *lines))


def write_taught(taught: Taught) -> str:
    """What marked turns teach, and its effect on others."""
    lines = [
        f"marked turns    {taught.right_before} → {taught.right_after} of {taught.marks} where you said"
        f" ({plural(len(taught.table.kinds), 'kind')} of ask)"
    ]
    if taught.others:
        lines.append(f"other turns     {taught.others_moved} of {taught.others} change their tier with them")
    return "\n".join(lines)
