"""A decision as text, for `explain` and `why`."""

import sys

from router.cli.figures import duration, money, plural
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object
from router.telemetry.colour import paint_tier

_DRY_RUN_SESSION = "x:replay-"
"""Session id prefix of a request written only to be explained."""

LATELY_SECONDS = 7 * 86_400.0
"""How far back redone turns are counted."""
_UNASKED = ("would ask", "not asked")
_LEFT_OUT = {"late": "its answer came too late", "odd": "its answer was neither quick nor long", "failed": "it gave no answer"}


def write_explanation(decision: JsonObject, redone: JsonObject | None = None) -> str:
    """Tier and reason, evidence, both estimates, and what would have changed it.

    `redone` is that part of the savings since `LATELY_SECONDS` ago.
    """
    lines = [f"{decision['tier']}  {decision['because']}", ""]
    lines.append(f"turn        {_turn(decision)}")
    if as_if := decision.get("as_if"):
        lines.append(f"as if       {as_if}")
    if before := as_list(decision.get("assumed_before")):
        lines.append(f"assumed     before: {', '.join(map(_assumed, before))}")
    lines.append(f"prompt      {_prompt(decision)}")
    lines.append(f"long task   {_number(decision['score']):.0%} chance")
    lines.append("evidence")
    lines += [f"  {_evidence(item)}" for item in as_list(decision["evidence"])] or ["  none"]
    lines.append("estimates")
    for tier, estimate in as_object(decision["estimates"]).items():
        lines.append(f"  {tier:<5} {_estimate(as_object(estimate))}")
    if redo := as_object(decision.get("redo")):
        lines.append(f"redo        {_redo(redo)}")
        if redone and (turns := int(_number(redone["turns"]))):
            lines.append(f"redone      {_redone(turns, _number(redone['seconds']) / turns)}")
    flip = as_object(decision["flip"])
    lines.append(f"would flip  {_flip(flip, str(decision['decided_by']))}")
    if combined := decision.get("combined"):
        lines.append(f"combined    {combined}")
    for wait in map(as_object, as_list(decision.get("queued"))):
        lines.append(f"waited      {duration(_number(wait['seconds']))} for {wait['target']}, which had no room")
    for target, lost in as_object(decision.get("drops")).items():
        lines.append(f"drops       {', '.join(map(str, as_list(lost)))} ({target})")
    for skipped in as_list(decision["skipped"]):
        lines.append(f"skipped     {as_object(skipped)['policy']}: {as_object(skipped)['reason']}")
    return "\n".join("".join(letter if letter.isprintable() else "?" for letter in line) for line in lines)


def print_explanation(decision: JsonObject, redone: JsonObject | None) -> None:
    """Print it, with the tier in its colour."""
    tier, gap, rest = write_explanation(decision, redone).partition("  ")
    print(f"{paint_tier(tier, sys.stdout)}{gap}{rest}")


def _turn(decision: JsonObject) -> str:
    """Kind of turn; client and session if known."""
    parts = [str(decision["turn_kind"])]
    if decision["client"] != "unknown":
        parts.append(f"client {decision['client']}")
    if "~" not in str(decision["session"]) and not str(decision["session"]).startswith(_DRY_RUN_SESSION):
        parts.append(f"session {decision['session']}")
    return ", ".join(parts)


def _prompt(decision: JsonObject) -> str:
    """Its length and certainty."""
    known = "counted" if decision["prompt_tokens_exact"] else "estimated"
    if late := as_list(decision.get("prompt_tokens_range")):
        known += f", between {late[0]} and {late[-1]}: the exact count was not ready in time"
    return f"{decision['prompt_tokens']} tokens ({known})"


def _assumed(item: Json) -> str:
    """The assumed size of a described turn."""
    turn = as_object(item)
    calls, edits = int(_number(turn["calls"])), int(_number(turn["edits"]))
    changed = f" ({plural(edits, 'edit')})" if edits else ""
    return f"{plural(calls, 'call')}{changed} on {turn['tier']}"


def _evidence(item: Json) -> str:
    entry = as_object(item)
    share = f"{_number(entry['log_odds']):+.2f}" if entry.get("log_odds") is not None else str(entry["kind"])
    target = f" ({entry['target']})" if entry.get("target") else ""
    return f"{share:<9} {entry['policy']}: {entry['because']}{target}"


def _estimate(estimate: JsonObject) -> str:
    """Time and price without a redo, whose weight in the decision nobody measures."""
    seconds = _number(estimate["seconds"]) - _number(estimate["redo_seconds"])
    usd = estimate["money_usd"]
    price = "" if usd is None else f", {money(_number(usd) - _number(estimate.get('redo_usd', 0.0)))}"
    return f"{duration(seconds)}{price} ({estimate['target']}{_ratio(estimate)})"


def _redo(redo: JsonObject) -> str:
    """Chance of a wrong first answer from fast, and whether assumed or learned."""
    turns = int(_number(redo["learned_turns"]))
    known = f"learned from {plural(turns, 'turn')}" if turns else "assumed"
    return (
        f"{_percent(redo['chance'])} chance that fast's answer is wrong"
        f" ({known}: {_percent(redo['quick_rate'])} of quick work, {_percent(redo['long_rate'])} of long work)"
    )


def _redone(turns: int, seconds: float) -> str:
    each = "it" if turns == 1 else "each, on average"
    return f"{plural(turns, 'turn')} in the last 7 days; fast had worked {duration(seconds)} on {each}"


def _percent(share: Json) -> str:
    return f"{100 * _number(share):.2g} %"


def _ratio(estimate: JsonObject) -> str:
    """The target's past turns compared to their expectation, if known."""
    calls, output = (_number(estimate.get(name, 1.0)) for name in ("calls_ratio", "output_ratio"))
    return (
        ""
        if calls == output == 1.0
        else f"; its turns take {calls:.2f} times the expected calls, {output:.2f} times the expected output"
    )


def _flip(flip: JsonObject, decided_by: str) -> str:
    if decided_by == "rule_out":
        return "never: no other tier can serve this"
    parts = []
    if flip.get("score") is not None:
        parts.append(f"the long-task chance were {_number(flip['score']):.0%}")
    if flip.get("fast_wait_seconds") is not None:
        were = "" if parts else " were"
        parts.append(f"the wait on fast{were} {duration(_number(flip['fast_wait_seconds']))}")
    return f"if {', or '.join(parts)}" if parts else "only with a different override"


def _number(value: Json) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
