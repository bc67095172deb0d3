"""The line that a person reads for each request: tier, target, reason, first token, speed, overhead."""

from router.contract.caller import LOCAL
from router.contract.entry import Line
from router.contract.words import Outcome
from router.telemetry.colour import DIM, RED, TIER_COLOURS, wrap


def entry_line(line: Line, *, has_colour: bool) -> str:
    """A request in one line. Colour adds, it never carries meaning."""

    def paint(text: str, colour: str) -> str:
        return wrap(text, colour) if has_colour else text

    tier = line.tier
    whose = "" if line.caller == LOCAL.name else f"  {line.caller if line.caller.isprintable() else repr(line.caller)}"
    if tier is None and line.outcome == Outcome.SERVED:
        return f"answered by the router{whose}  {line.dialect}  {line.id}"
    if tier is None:
        refused = f"{line.status} {Outcome(line.outcome).said}"
        return f"{paint(refused, RED)}{whose}  {_words(line.error)}  {line.dialect}  {line.id}"
    served_by = f"{tier} → {line.target}" if line.target else str(tier)
    parts = [f"{paint(f'{served_by:<18}', TIER_COLOURS[tier])}{whose}"]
    if line.outcome != Outcome.SERVED:
        parts.append(paint(f"{Outcome(line.outcome).said} {_words(line.error)}".rstrip(), RED))
    parts.append(line.because or "")
    figures = [
        _figure("first token", line.ttft_ms, "ms"),
        _figure("speed ~" if line.tokens_estimated else "speed", line.tokens_per_second, "tok/s"),
        _figure("took", line.duration_ms / 1000, "s"),
        _figure("overhead", line.overhead_ms, "ms"),
    ]
    parts.append(paint(", ".join(filter(None, figures)), DIM))
    return "  ".join(parts)


def _words(code: str | None) -> str:
    return (code or "").replace("_", " ")


def _figure(name: str, value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{name} {value:.0f} {unit}" if value >= 10 else f"{name} {value:.2g} {unit}"
