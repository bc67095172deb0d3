"""A target that does not accept what a request contains cannot serve it."""

from collections.abc import Iterator
from itertools import repeat
from operator import attrgetter, contains
from typing import ClassVar

from router.contract.opinions import Opinion, PolicyConfig, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.target import Target
from router.contract.words import Feature, Tier

_NAMES = {
    Feature.IMAGES: "an image",
    Feature.FILES: "a file",
    Feature.TOOLS: "tools",
    Feature.CUSTOM_TOOLS: "a custom (free-form) tool",
    Feature.JSON_SCHEMA: "a JSON schema for the answer",
}
_accepts_of, _speaks_of = attrgetter("target.accepts"), attrgetter("target.speaks")


class CapabilityPolicy:
    """Rules out targets that cannot take what the request has."""

    name: ClassVar[str] = "capability"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, _: PolicyConfig) -> None: ...

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        needs, statuses = request.needs, signals.statuses.values()
        # Found without a Python step for each target: most requests can go anywhere.
        if (
            Feature.COMPLETIONS not in needs
            and all(map(needs.issubset, map(_accepts_of, statuses)))
            and all(map(contains, map(_speaks_of, statuses), repeat(request.dialect)))
        ):
            return ()
        opinions: list[Opinion] = []
        for status in statuses:
            target = status.target
            if request.dialect in target.speaks and needs <= target.accepts and Feature.COMPLETIONS not in needs:
                continue
            reason = _find_lack(request, target)
            if reason:
                opinions.append(RuleOut(target.name, reason, lasting=True))
        if request.hosted:
            opinions += _prefer_hosts(request, signals)
        return tuple(opinions)


def _prefer_hosts(request: RequestView, signals: Signals) -> Iterator[RuleOut]:
    """Only within a tier: clients offer hosted tools with every request, needed or not."""
    able = {
        status.target.tier: status.target.name
        for status in signals.statuses.values()
        if request.dialect in status.target.speaks
        and request.needs <= status.target.accepts
        and signals.prompt.tokens <= status.target.window_tokens
        and not status.closed_seconds
        and not status.is_resting
    }
    for status in signals.statuses.values():
        target = status.target
        if request.dialect not in target.speaks and (host := able.get(target.tier)):
            reason = f"it cannot run the tool {request.hosted}, but {host} may be able to"
            yield RuleOut(target.name, reason, lasting=True, yields=True)


def _find_lack(request: RequestView, target: Target) -> str | None:
    if Feature.COMPLETIONS in request.needs:
        if target.tier is not Tier.FAST:
            return "fill-in-the-middle (/v1/completions) is served by fast targets only"
        return None if Feature.COMPLETIONS in target.accepts else "this target does not accept completions"
    is_native = request.dialect in target.speaks
    if not is_native and request.previous_response_id:
        return "previous_response_id needs a target that speaks responses"
    if not is_native and request.bound:
        return f"the request contains {request.bound}, which needs a target that speaks {request.dialect}"
    if request.needs <= target.accepts:
        return None
    accepts = target.accepts
    if not is_native and Feature.TOOLS in accepts:
        accepts = accepts | {Feature.CUSTOM_TOOLS}  # a bridge turns a free-form tool into a function
    lacking = [name for feature, name in _NAMES.items() if feature in request.needs and feature not in accepts]
    return f"the request contains {' and '.join(lacking)}, which this target does not accept" if lacking else None
