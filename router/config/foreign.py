"""Files and notations of other routers: recognised, and named with what to write here instead."""

import re
from collections.abc import Mapping

from router.config.faults import Fault

_PAGE = "docs/how-to/come-from-another-router.md"
_ROUTERS: Mapping[str, tuple[frozenset[str], ...]] = {
    "LiteLLM": (frozenset({"model_list"}), frozenset({"litellm_settings"}), frozenset({"router_settings", "general_settings"})),
    "claude-code-router": (frozenset({"Providers"}), frozenset({"Router", "PROXY_URL"})),
    "Bifrost": (frozenset({"providers", "governance"}), frozenset({"providers", "client"})),
    "Portkey": (frozenset({"strategy", "targets"}),),
    "RouteLLM": (frozenset({"routers", "strong_model"}),),
}
_NAME = r"([A-Za-z_][A-Za-z0-9_]*)"
_NOTATIONS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\${_NAME}",
        rf"\$\{{(?:env[:.])?{_NAME}(?::?-[^}}]*)?\}}",
        rf"os\.environ[/.]{_NAME}",
        rf"os\.environ\[['\"]?{_NAME}['\"]?\]",
        rf"\{{\{{\s*(?:env[.:])?{_NAME}\s*\}}\}}",
        rf"%{_NAME}%",
        rf"(?i:env)[:./]\s*{_NAME}",
        rf"process\.env\.{_NAME}",
    )
)
_BARE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:KEY|TOKEN|SECRET)[A-Z0-9_]*")


def find_other_router(content: Mapping[object, object]) -> Fault | None:
    """The one fault of a file that was written for another router."""
    if "tiers" in content:
        return None
    names = {name for name in content if isinstance(name, str)}
    for router, marks in _ROUTERS.items():
        if any(mark <= names for mark in marks):
            return Fault("file", f"this is a config of {router}, not of Tandem", f"see {_PAGE}; tandem init writes one of ours")
    return None


def find_variable(value: str) -> str:
    """The variable that a value names in the notation of a shell or another router; empty where it is a plain value."""
    text = value.strip()
    found = next((match for notation in _NOTATIONS if (match := notation.fullmatch(text))), None)
    if found is not None:
        return found[1]
    return text if _BARE.fullmatch(text) else ""
