"""Lines above and below the turns: head, notices, jobs to collect, targets and savings."""

from collections.abc import Sequence
from dataclasses import dataclass

from router.contract.job import EndedJob
from router.contract.notices import Notice
from router.contract.request import Json, JsonObject, objects_in
from router.contract.words import Tier
from router.screen.figures import clock, duration, plural
from router.screen.text import Style, clean, fit, width_of
from router.telemetry.colour import BOLD, DIM, RED

_GAP = "   "
_MOST_NOTICES = 4
_MOST_JOBS = 3
_MOST_TARGETS = 6


@dataclass(frozen=True, slots=True)
class Facts:
    version: str
    url: str
    targets: tuple[tuple[Tier, str], ...]
    """Tier, and name with model."""
    preference: str
    ledger: str
    connect: str
    init: str
    is_simulated: bool
    second_opinion: str = ""
    """Who receives people's words besides the serving targets; empty if none."""


def write_head(facts: Facts, columns: int, style: Style) -> list[str]:
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
    lines: list[str] = []
    for part in (_clean_parts(part, style) for part in parts):
        if lines and width_of(lines[-1]) + len(_GAP) + width_of(part) <= columns:
            lines[-1] += _GAP + part
        else:
            lines.append(part)
    return [fit(line, columns, style) for line in lines]


def _clean_parts(text: str, style: Style) -> str:
    """Drop control characters, but keep double blanks."""
    return "  ".join(clean(part, style) for part in text.split("  "))


def write_notices(notices: Sequence[Notice], columns: int, style: Style) -> list[str]:
    """One line for each of the newest."""
    lines = [_write_notice(notice, columns, style) for notice in notices[-_MOST_NOTICES:]]
    if len(notices) > _MOST_NOTICES:
        lines.insert(0, fit(f"! and {len(notices) - _MOST_NOTICES} more problems", columns, style))
    return [style.paint(line, RED) for line in lines]


def _write_notice(notice: Notice, columns: int, style: Style) -> str:
    text = f"! {notice.text}, since {clock(notice.since)}; hint: {notice.hint}"
    return fit(clean(text, style), columns, style)


def write_jobs(jobs: Sequence[EndedJob]) -> list[str]:
    """One line for each of the newest."""
    return _write_ended([(job.id, str(job.state), job.ended_at) for job in jobs])


def read_jobs(stats: JsonObject) -> list[str]:
    """From `/tandem/stats`."""
    jobs = (
        (str(job.get("id") or ""), str(job.get("state") or ""), job.get("ended_at")) for job in objects_in(stats.get("jobs"))
    )
    return _write_ended(
        [(name, state, float(at)) for name, state, at in jobs if name and state and isinstance(at, (int, float))]
    )


def _write_ended(jobs: Sequence[tuple[str, str, float]]) -> list[str]:
    lines = [
        f"{name} {state} at {clock(at)}, not collected; tandem jobs result {name}" for name, state, at in jobs[-_MOST_JOBS:]
    ]
    more = len(jobs) - _MOST_JOBS
    return [f"and {plural(more, 'more background job')} to collect; tandem jobs list", *lines] if more > 0 else lines


def write_targets(stats: JsonObject) -> list[str]:
    """From `/tandem/stats`."""
    targets = stats.get("targets")
    known = [(name, it) for name, it in targets.items() if isinstance(it, dict)] if isinstance(targets, dict) else []
    known.sort(key=lambda pair: (pair[1].get("tier") != "fast", pair[0]))
    width = max((len(name) for name, _ in known), default=0)
    lines = [f"{it.get('tier')!s:<4}  {name:<{width}}  {_describe(it)}" for name, it in known[:_MOST_TARGETS]]
    return [*lines, f"and {len(known) - _MOST_TARGETS} more targets"] if len(known) > _MOST_TARGETS else lines


def _describe(target: JsonObject) -> str:
    ttft, speed, running = (_number(target.get(name)) for name in ("ttft_seconds", "tokens_per_second", "in_flight"))
    parts = [f"first token {duration(ttft)}", f"{speed:.0f} tokens/s" if speed is not None else ""]
    parts.append(f"{running:.0f} running" if running else "")
    if target.get("loading"):
        parts.append("loading its model")
    elif wait := _number(target.get("wait_seconds")):
        because = target.get("wait_because")
        parts.append(f"wait {duration(wait)}{f' ({because})' if because else ''}")
    elif rest := _number(target.get("left_alone_seconds")):
        parts.append(f"left alone for {duration(rest)}")
    return ", ".join(part for part in parts if part)


def write_savings(savings: JsonObject, span: str) -> list[str]:
    """From `/tandem/savings`; none without turns."""
    sentence = savings.get("sentence")
    return [f"last {span}: {sentence}"] if savings.get("turns") and isinstance(sentence, str) else []


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
