"""The first lines of the screen: where to point a client, and who will answer."""

from dataclasses import dataclass

from router.contract.words import Tier
from router.screen.text import Style, clean, fit, width_of
from router.telemetry.colour import BOLD, DIM

_GAP = "   "


@dataclass(frozen=True, slots=True)
class Facts:
    """What the head shows."""

    version: str
    url: str
    targets: tuple[tuple[Tier, str], ...]
    """Each target's tier, and its name with its model."""
    preference: str
    ledger: str
    connect: str
    """The command that points a client here."""
    init: str
    """The command that writes a config."""
    is_simulated: bool
    second_opinion: str = ""
    """Who receives people's words in addition to the targets that serve them; empty if nobody does."""


def write_head(facts: Facts, columns: int, style: Style) -> list[str]:
    """The lines, none wider than the terminal."""
    address = [f"Tandem {facts.version}".rstrip(), f"{facts.url}/v1", f"Claude Code: {facts.url}"]
    tiers = [f"{tier}  {', '.join(name for of, name in facts.targets if of is tier) or 'none'}" for tier in Tier]
    lines = _flow(address, columns, style)
    lines[0] = lines[0].replace(address[0], style.paint(address[0], BOLD), 1)
    lines += _flow([*tiers, facts.preference, f"ledger {facts.ledger}"], columns, style)
    if facts.is_simulated:
        lines += _flow(["No model is configured: simulated tiers answer.", f"Your own: {facts.init}"], columns, style)
    if facts.second_opinion:
        lines += _flow([f"second opinion  {facts.second_opinion}"], columns, style)
    connect = f"Connect a client: {facts.connect}"
    last = _flow([connect, "Ctrl-C stops"], columns, style)
    return [*lines, *(style.paint(line, DIM) for line in last), ""]


def _flow(parts: list[str], columns: int, style: Style) -> list[str]:
    """Parts next to each other, on as many lines as they need."""
    lines: list[str] = []
    for part in (clean_parts(part, style) for part in parts):
        if lines and width_of(lines[-1]) + len(_GAP) + width_of(part) <= columns:
            lines[-1] += _GAP + part
        else:
            lines.append(part)
    return [fit(line, columns, style) for line in lines]


def clean_parts(text: str, style: Style) -> str:
    """The text without control characters; two blanks stay two."""
    return "  ".join(clean(part, style) for part in text.split("  "))
