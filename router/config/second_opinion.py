"""The block `second_opinion:`: which target may be asked, and so receives what people typed."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from router.config.faults import Fault, close_to
from router.config.models import SecondOpinionSettings, TargetSettings
from router.config.targets import TargetPlan
from router.contract.secret import Secret

_BLOCK = "second_opinion"


def check_asked(name: str | None, targets: Mapping[str, TargetSettings], faults: list[Fault]) -> None:
    """Check who is asked. Only a target with a key of its own can be: a caller's key is for the caller's own requests."""
    if name is None:
        return
    path, known = f"{_BLOCK}.target", sorted(filter(None, targets))
    if name not in targets:
        hint = f"{close_to(name, known)}known: {', '.join(known)}"
        faults.append(Fault(path, f'"{name}" is not a target', hint))
    elif (key := targets[name].api_key) is not None and Secret(key).is_callers:
        problem = f'"{name}" takes the caller\'s own key, which is never used for a second opinion'
        faults.append(Fault(path, problem, "name a target with a key of its own, or without one"))


def salvage_asked(content: Mapping[str, object]) -> str | None:
    """Who is asked by a config that is not well formed, where that can be read."""
    block = content.get(_BLOCK)
    name = block.get("target") if isinstance(block, dict) else None
    return name if isinstance(name, str) else None


def warn_of_slowness(asked: SecondOpinionSettings | None, targets: Sequence[TargetPlan]) -> list[str]:
    """A target that is slower than the longest wait would answer too late, and delay turns for nothing."""
    found = _find(asked, targets)
    if asked is None or found is None or found.target.typical.ttft_seconds < asked.max_wait_seconds:
        return []
    usual = f"{asked.target} usually takes {found.target.typical.ttft_seconds:g} s to its first token"
    return [f"{_BLOCK}: {usual}, so its answer comes too late; name a quicker target, or raise max_wait_seconds"]


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
