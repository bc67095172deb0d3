"""What a request cost, in all and attempt by attempt: lines of `tandem why`."""

import msgspec

from router.contract.entry import Attempt
from router.contract.request import Json, JsonObject
from router.screen.figures import UNKNOWN, count, duration, money


def write_cost(decision: JsonObject) -> list[str]:
    """What was paid and, where there was more than one attempt or the only one failed, for what."""
    attempts, cost = _read(decision.get("attempts")), decision.get("cost_usd")
    lines = [f"cost        {money(cost) if isinstance(cost, (int, float)) else _say_unknown(attempts)}"]
    if len(attempts) > 1 or any(attempt.error for attempt in attempts):
        lines.append("attempts")
        lines += [f"  {attempt.target}: {', '.join(_parts(attempt))}" for attempt in attempts]
    return lines


def _read(attempts: Json) -> list[Attempt]:
    """Attempts from any version; empty if Tandem did not write them."""
    try:
        return msgspec.convert(attempts, list[Attempt])
    except msgspec.ValidationError:
        return []


def _say_unknown(attempts: list[Attempt]) -> str:
    """Why the sum is unknown, and which part of it is known."""
    unpriced = sorted({attempt.target for attempt in attempts if attempt.cost_usd is None and attempt.usage is not None})
    if not unpriced:
        return "unknown"
    known = sum(attempt.cost_usd or 0.0 for attempt in attempts)
    return f"{f'at least {money(known)}' if known else 'unknown'}: no price is configured for {', '.join(unpriced)}"


def _parts(attempt: Attempt) -> list[str]:
    parts = [attempt.error or "served"]
    if attempt.is_question:
        parts[0] = f"second opinion, {attempt.error}" if attempt.error else "second opinion"
    if attempt.status is not None and attempt.error is not None:
        parts[0] += f" ({attempt.status})"
    parts.append(duration(attempt.seconds))
    if (usage := attempt.usage) is not None:
        estimated = ", estimated" if usage.is_estimated else ""
        parts.append(f"{count(usage.input_tokens)} tokens in, {count(usage.output_tokens)} out{estimated}")
    cost = money(attempt.cost_usd)
    return parts if cost == UNKNOWN else [*parts, cost]
