"""A router's targets and its regret as a few lines: what `tandem top` keeps below the turns."""

from router.contract.request import Json, JsonObject
from router.screen.figures import duration, money

_MOST_TARGETS = 6
_FIGURES = (("saved_seconds", "saved"), ("lost_seconds", "lost"), ("saved_usd", "saved"), ("hops_usd", "hops cost"))


def write_targets(stats: JsonObject) -> list[str]:
    """A line for each target, from `/tandem/stats`."""
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


def write_regret(regret: JsonObject, span: str) -> list[str]:
    """One line of what the choices of a time saved and cost, from `/tandem/regret`; none without turns."""
    figures = regret.get("figures")
    if not isinstance(figures, dict) or not regret.get("turns"):
        return []
    parts = [_say_figure(figures.get(name), verb) for name, verb in _FIGURES]
    said = ", ".join(part for part in parts if part)
    return [f"last {span}: {said}"] if said else []


def _say_figure(figure: Json, verb: str) -> str:
    if not isinstance(figure, dict) or not (value := _number(figure.get("value"))):
        return ""
    shown = money(value) if figure.get("unit") == "usd" else duration(value)
    return f"{verb} {'' if figure.get('sure') == 'measured' else 'about '}{shown}"


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
