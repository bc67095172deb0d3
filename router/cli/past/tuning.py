"""Results of `tandem tune`, as text and JSON."""

from dataclasses import asdict, astuple

from router.contract.request import JsonObject
from router.past.marks import Taught
from router.past.tune import Change, Fit, Tuning
from router.screen.figures import plural


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


def write_taught(taught: Taught) -> str:
    """What marked turns teach, and its effect on others."""
    lines = [
        f"marked turns    {taught.right_before} → {taught.right_after} of {taught.marks} where you said"
        f" ({plural(len(taught.table.kinds), 'kind')} of ask)"
    ]
    if taught.others:
        lines.append(f"other turns     {taught.others_moved} of {taught.others} change their tier with them")
    return "\n".join(lines)
