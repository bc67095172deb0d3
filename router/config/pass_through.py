"""The block `pass_through:`: which target gets the requests of each route that Tandem does not decide."""

from collections.abc import Iterable, Mapping

from router.config.faults import Fault, Known, close_to
from router.config.models import TargetSettings

_BLOCK = "pass_through"


def check_passed(
    named: Iterable[tuple[str, str]], targets: Mapping[str, TargetSettings], known: Known, faults: list[Fault]
) -> None:
    """Check who is named. It must be a target with an address of its own: a library or a simulation has only create calls."""
    names = sorted(filter(None, targets))
    able = [name for name in names if _has_routes(targets[name], known)]
    for route, name in named:
        path = f"{_BLOCK}.{route}"
        if name not in targets:
            faults.append(Fault(path, f'"{name}" is not a target', f"{close_to(name, names)}known: {', '.join(names)}"))
        elif name not in able:
            problem = f'"{name}" cannot serve {route}: adapter {targets[name].adapter} handles conversations only'
            hint = f"name one of {', '.join(able)}" if able else "name a target with adapter: openai_http or anthropic_http"
            faults.append(Fault(path, problem, hint))


def salvage_passed(content: Mapping[str, object]) -> dict[str, str]:
    """Who is named by a config that is not well formed, where that can be read."""
    block = content.get(_BLOCK)
    if not isinstance(block, dict):
        return {}
    return {route: name for route, name in block.items() if isinstance(route, str) and isinstance(name, str)}


def _has_routes(settings: TargetSettings, known: Known) -> bool:
    return hasattr(known.adapters.get(settings.adapter), "open_route")
