"""The blocks that name a target: `second_opinion:`, which lets it receive what people typed, and `pass_through:`."""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from router.config.faults import Fault, Known, close_to
from router.config.models import SecondOpinionSettings
from router.config.target_settings import TargetSettings
from router.config.targets import TargetPlan
from router.contract.secret import Secret

_ASKED, _PASSED = "second_opinion", "pass_through"


def check_asked(name: str | None, targets: Mapping[str, TargetSettings], faults: list[Fault]) -> None:
    """Check who is asked. Only a target with a key of its own can be: a caller's key is for the caller's own requests."""
    if name is None:
        return
    path, known = f"{_ASKED}.target", sorted(filter(None, targets))
    if name not in targets:
        faults.append(_unknown(path, name, known))
    elif (key := targets[name].api_key) is not None and Secret(key).is_callers:
        problem = f'"{name}" takes the caller\'s own key, which is never used for a second opinion'
        faults.append(Fault(path, problem, "name a target with a key of its own, or without one"))


def warn_of_slowness(asked: SecondOpinionSettings | None, targets: Sequence[TargetPlan]) -> list[str]:
    """A target that is slower than the longest wait would answer too late, and delay turns for nothing."""
    found = _find(asked, targets)
    if asked is None or found is None or found.target.typical.ttft_seconds < asked.max_wait_seconds:
        return []
    usual = f"{asked.target} usually takes {found.target.typical.ttft_seconds:g} s to its first token"
    return [f"{_ASKED}: {usual}, so its answer comes too late; name a quicker target, or raise max_wait_seconds"]


def say_who_is_asked(asked: SecondOpinionSettings | None, targets: Sequence[TargetPlan]) -> str:
    """Which target, at which provider, receives the words of turns that are in doubt; empty if none does."""
    found = _find(asked, targets)
    if found is None:
        return ""
    named = found.endpoint.model if found.is_model else found.adapter  # a library's model begins with its provider
    where = urlsplit(found.endpoint.base_url).hostname or named
    return f"{found.target.name} ({where}) receives the words of turns in doubt"


def _find(asked: SecondOpinionSettings | None, targets: Sequence[TargetPlan]) -> TargetPlan | None:
    return next((plan for plan in targets if asked is not None and plan.target.name == asked.target), None)


def check_passed(
    named: Iterable[tuple[str, str]], targets: Mapping[str, TargetSettings], known: Known, faults: list[Fault]
) -> None:
    """Check who is named. It must be a target with an address of its own: a library or a simulation has only create calls."""
    names = sorted(filter(None, targets))
    able = [name for name in names if _has_routes(targets[name], known)]
    for route, name in named:
        path = f"{_PASSED}.{route}"
        if name not in targets:
            faults.append(_unknown(path, name, names))
        elif name not in able:
            problem = f'"{name}" cannot serve {route}: adapter {targets[name].adapter} handles conversations only'
            hint = f"name one of {', '.join(able)}" if able else "name a target with adapter: openai_http or anthropic_http"
            faults.append(Fault(path, problem, hint))


def salvage_passed(content: Mapping[str, object]) -> dict[str, str]:
    """Who is named by a config that is not well formed, where that can be read."""
    block = content.get(_PASSED)
    if not isinstance(block, dict):
        return {}
    return {route: name for route, name in block.items() if isinstance(route, str) and isinstance(name, str)}


def _unknown(path: str, name: str, known: Sequence[str]) -> Fault:
    return Fault(path, f'"{name}" is not a target', f"{close_to(name, known)}known: {', '.join(known)}")


def _has_routes(settings: TargetSettings, known: Known) -> bool:
    return hasattr(known.adapters.get(settings.adapter), "open_route")
