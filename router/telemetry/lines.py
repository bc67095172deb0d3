"""The line that a person reads for each request: tier, target, reason, first token, speed, overhead."""

from router.contract.entry import Line
from router.contract.words import Outcome
from router.telemetry.colour import DIM, RED, TIER_COLOURS, wrap


class EntryLine:
    """Writes lines, with colour where the terminal has it. Colour adds, it never carries meaning."""

    def __init__(self) -> None:
        self._colour = False

    def configure(self, *, colour: bool) -> None:
        """Switch colour on or off."""
        self._colour = colour

    def __call__(self, line: Line) -> str:
        tier = line.tier
        if tier is None:
            return f"{self._paint(f'{line.status} refused', RED)}  {line.error}  {line.dialect}  {line.id}"
        served_by = f"{tier} → {line.target}" if line.target else str(tier)
        parts = [self._paint(f"{served_by:<18}", TIER_COLOURS[tier])]
        if line.outcome != Outcome.SERVED:
            parts.append(self._paint(f"{line.outcome} {line.error or ''}".rstrip(), RED))
        parts.append(line.because or "")
        figures = [
            _figure("first token", line.ttft_ms, "ms"),
            _figure("speed ~" if line.tokens_estimated else "speed", line.tokens_per_second, "tok/s"),
            _figure("took", line.duration_ms / 1000, "s"),
            _figure("overhead", line.overhead_ms, "ms"),
        ]
        parts.append(self._paint(", ".join(figure for figure in figures if figure), DIM))
        return "  ".join(parts)

    def _paint(self, text: str, colour: str) -> str:
        return wrap(text, colour) if self._colour else text


def _figure(name: str, value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{name} {value:.0f} {unit}" if value >= 10 else f"{name} {value:.2g} {unit}"


entry_line = EntryLine()
