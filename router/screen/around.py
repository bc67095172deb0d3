"""Lines above and below the turns: head, notices, jobs to collect, targets and savings."""

from collections.abc import Sequence
from dataclasses import dataclass

from router.contract.job import EndedJob
from router.contract.notices import Notice
from router.contract.request import Json, JsonObject, objects_in
from router.contract.words import Tier
from router.screen.figures import clock, duration, plural
from router.screen.lines import gap_of
from router.screen.seen import Noted
from router.screen.text import Style, clean, fit, fold, width_of
from router.telemetry.colour import BOLD, DIM, RED

_GAP = "   "
_MOST_NOTICES = 4
_MOST_JOBS = 3
_MARKED = ("warning", "error")
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
    """Who receives people's words besides the serving targets; empty if none."""
    has_page: bool = True
    ledger_path: str = ""
    """Where the last line's sums are read; empty without a ledger."""


def write_head(facts: Facts, columns: int, style: Style) -> list[str]:
    address = [f"Tandem {facts.version}".rstrip(), f"{facts.url}/v1", f"Claude Code: {facts.url}"]
    address += [f"page: {facts.url}/"] if facts.has_page else []
    tiers = [f"{tier}  {', '.join(name for of, name in facts.targets if of is tier) or 'none'}" for tier in Tier]
    lines = _flow(address, columns, style)
    lines[0] = lines[0].replace(address[0], style.paint(address[0], BOLD), 1)
    lines += _flow([*tiers, facts.preference, f"ledger {facts.ledger}"], columns, style)
    if facts.is_simulated:
        lines += _flow(["No model is configured: simulated tiers answer.", f"Your own: {facts.init}"], columns, style)
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


def write_notices(notices: Sequence[Notice], columns: int, rows: int, style: Style) -> list[str]:
    """The newest, each in full, as far as there are rows; at least one."""
    shown: list[str] = []
    for index, notice in enumerate(reversed(notices)):
        text = f"! {notice.text}, since {clock(notice.since)}; hint: {notice.hint}"
        lines = fold(clean(text, style), columns, "  ")
        if index == _MOST_NOTICES or (shown and len(shown) + len(lines) >= rows):
            shown.insert(0, f"! and {plural(len(notices) - index, 'more problem')}")
            break
        shown = [*lines, *shown]
    return [style.paint(line, RED) for line in shown]


def write_event(noted: Noted, columns: int, style: Style) -> list[str]:
    """An event as a row: its time, and the whole sentence. Other lines are only broken."""
    text = clean(noted.text, style)
    if not noted.level:
        return fold(text, columns, "  ")
    start = f"{clock(noted.at)}{gap_of(columns)}"
    first, *more = fold(f"{'! ' if noted.level in _MARKED else ''}{text}", columns - len(start))
    lines = [start + first, *(" " * len(start) + line for line in more)]
    return [style.paint(line, RED) for line in lines] if noted.level == "error" else lines


def write_jobs(jobs: Sequence[EndedJob]) -> list[str]:
    """One line for each of the newest, with its task."""
    return _write_ended([(job.id, str(job.state), job.title, job.ended_at) for job in jobs])


def read_jobs(stats: JsonObject) -> list[str]:
    """From `/tandem/stats`."""
    found = []
    for job in objects_in(stats.get("jobs")):
        (name, state, task), at = (str(job.get(field) or "") for field in ("id", "state", "title")), job.get("ended_at")
        if name and state and isinstance(at, (int, float)):
            found.append((name, state, task, float(at)))
    return _write_ended(found)


def _write_ended(jobs: Sequence[tuple[str, str, str, float]]) -> list[str]:
    lines = []
    for name, state, task, at in jobs[-_MOST_JOBS:]:
        what = f': "{task}"' if task else ""
        lines.append(f"job {state} at {clock(at)}{what}; collect it with tandem jobs result {name}")
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
