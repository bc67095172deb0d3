"""What a config says of traces, as they are written: routes by their names, and who serves each target's model."""

from router.config.load import LoadedConfig
from router.config.model_facts import provider_of
from router.config.targets import TargetPlan
from router.contract.tracing import TracedRoute, TraceTerms
from router.dialects.table import SPECS


def find_trace_terms(loaded: LoadedConfig) -> TraceTerms | None:
    """What the config says of traces; None where there are to be none."""
    settings = loaded.config.traces
    if settings.endpoint is None:
        return None
    from router.telemetry.genai import name_operation, name_provider  # loaded late: only traces need it

    return TraceTerms(
        endpoint=settings.endpoint,
        sample=settings.sample,
        headers=loaded.trace_headers,
        providers={plan.target.name: name_provider(_provider_of(plan), plan.adapter) for plan in loaded.targets},
        routes={
            (spec.name, operation): TracedRoute(f"/v1{path}", name_operation(operation, is_conversation=spec.is_conversation))
            for spec in SPECS.values()
            for operation, path in spec.paths.items()
        },
    )


def _provider_of(plan: TargetPlan) -> str:
    """Who serves a target's model, as far as its address shows it, or its name where that begins with the provider's."""
    return provider_of(plan.endpoint.base_url) or (plan.endpoint.model.partition("/")[0] if plan.adapter == "litellm" else "")
