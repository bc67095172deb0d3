"""The line that a person reads for each request: tier, target, reason, first token, speed, overhead."""

from router.contract.entry import Entry
from router.contract.words import Outcome, Tier

_COLOURS = {Tier.FAST: "\x1b[32m", Tier.DEEP: "\x1b[34m"}
_RED, _DIM, _OFF = "\x1b[31m", "\x1b[2m", "\x1b[0m"


class EntryLine:
    """Writes lines, with colour where the terminal has it. Colour adds, it never carries meaning."""

    def __init__(self) -> None:
        self._colour = False

    def configure(self, *, colour: bool) -> None:
        """Switch colour on or off."""
        self._colour = colour

    def __call__(self, entry: Entry) -> str:
        decision = entry.decision
        if decision is None:
            return f"{self._paint(f'{entry.status} refused', _RED)}  {entry.error}  {entry.dialect}  {entry.id}"
        tier = entry.tier or decision.tier
        served_by = f"{tier} → {entry.target}" if entry.target else str(tier)
        parts = [self._paint(f"{served_by:<18}", _COLOURS[tier])]
        if entry.outcome is not Outcome.SERVED:
            parts.append(self._paint(f"{entry.outcome} {entry.error or ''}".rstrip(), _RED))
        parts.append(entry.because or decision.because)
        figures = [
            _figure("first token", entry.ttft_ms, "ms"),
            _figure("speed" if not (entry.usage and entry.usage.is_estimated) else "speed ~", entry.tokens_per_second, "tok/s"),
            _figure("took", entry.duration_ms / 1000, "s"),
            _figure("overhead", entry.overhead_ms, "ms"),
        ]
        parts.append(self._paint(", ".join(figure for figure in figures if figure), _DIM))
        return "  ".join(parts)

    def _paint(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_OFF}" if self._colour else text


def _figure(name: str, value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{name} {value:.0f} {unit}" if value >= 10 else f"{name} {value:.2g} {unit}"


entry_line = EntryLine()
