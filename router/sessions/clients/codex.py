"""Codex: marks and texts, turn metadata, turn state, model list.

Codex takes a model's prompt, tools and efforts from its catalogue, so ours copies the installed Codex's entries, which `tandem
connect codex` stores. Without them there is no catalogue: a prompt of our own would make Codex worse.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from router.contract.request import Json, JsonObject, RequestView
from router.contract.signals import reserve_tokens
from router.contract.words import TurnKind
from router.dialects.fields import as_object, as_text
from router.sessions.clients.client import Client, ListedModel, ModelList, PlanMarks, Stated, parse_object

STORED_MODELS = Path("connect", "codex", "models.json")
_METADATA = "x-codex-turn-metadata"
_KINDS = {"prewarm": TurnKind.PREWARM, "compaction": TurnKind.COMPACTION, "memory": TurnKind.SIDE}
_SOURCES = {"subagent": TurnKind.SUBAGENT, "thread_title": TurnKind.SIDE}
_LEVELS: list[Json] = [
    {"effort": effort, "description": words}
    for effort, words in (("low", "Quick"), ("medium", "Balanced"), ("high", "Thorough"))
]
_PUBLIC: JsonObject = {"use_responses_lite": False, "tool_mode": None, "availability_nux": None, "upgrade": None}
"""Codex packs tools for OpenAI's servers in an internal form. All targets understand the public one."""
_UNKNOWN: JsonObject = {
    "default_reasoning_level": "medium",
    "supported_reasoning_levels": _LEVELS,
    "additional_speed_tiers": [],
    "service_tiers": [],
}
"""Modest promises for a model that Codex does not know."""


def read_stated(view: RequestView) -> Stated:
    """Read the turn's metadata: a header over HTTP, a string in `client_metadata` on every transport."""
    text = view.headers.get(_METADATA) or as_text(as_object(view.body.get("client_metadata")).get(_METADATA))
    if not text:
        return Stated()
    metadata = parse_object(text)
    kind = _KINDS.get(as_text(metadata.get("request_kind"))) or _SOURCES.get(as_text(metadata.get("thread_source")))
    return Stated(kind, as_text(metadata.get("thread_id")), as_text(metadata.get("turn_id")))


def choose_entries(models: Sequence[JsonObject], behind: Mapping[str, str]) -> dict[str, JsonObject]:
    """The nearest entry of Codex's catalogue for each name; `behind` has their models."""
    usable = [model for model in models if model.get("base_instructions") and model.get("visibility") == "list"]
    if not usable:
        return {}
    # Entries without OpenAI's internal forms have a prompt for tools in the public form.
    plain = next((model for model in usable if not model.get("tool_mode") and not model.get("use_responses_lite")), usable[0])
    chosen: dict[str, JsonObject] = {}
    for name, model in behind.items():
        known = next((entry for entry in usable if _is_same(model, str(entry.get("slug")))), None)
        chosen[name] = {**plain, **_PUBLIC, **_UNKNOWN} if known is None else {**known, **_PUBLIC}
    return chosen


def _is_same(model: str, slug: str) -> bool:
    """Whether the names match, but for a provider before or a date after."""
    return re.fullmatch(rf"(?:.*/)?{re.escape(slug)}(?:-\d{{4}}.*)?", model) is not None


def write_models(
    known: Mapping[str, JsonObject], models: Sequence[ListedModel], theirs: Sequence[JsonObject] = ()
) -> JsonObject:
    """The list that Codex reads: without it, it drops `apply_patch`, guesses the window and sends no effort.

    The entries of a plan come first, as they are. Ours are then copies of the plan's first model, with the tools in its form.
    """
    if listed := [entry for entry in theirs if entry.get("visibility") == "list"]:
        copied = min(listed, key=_priority_of) | {"availability_nux": None, "upgrade": None}
        known = dict.fromkeys((model.name for model in models), copied)
    shown = [model for model in models if model.name in known]
    first = max(map(_priority_of, theirs), default=0) + 1
    own = [_write_entry(known[model.name], model, priority) for priority, model in enumerate(shown, first)]
    return {"models": [*theirs, *own]}


def _priority_of(entry: JsonObject) -> int:
    return priority if isinstance(priority := entry.get("priority"), int) else 0


def _write_entry(known: JsonObject, model: ListedModel, priority: int) -> JsonObject:
    window = model.window_tokens
    entry = {
        **known,
        "slug": model.name,
        "display_name": model.title,
        "description": model.description,
        "visibility": "list",
        "supported_in_api": True,
        "apply_patch_tool_type": known.get("apply_patch_tool_type") if model.takes_free_form else None,
        "context_window": window,
        "max_context_window": window,
        "priority": priority,
        # Codex holds MCP tools back behind this search. Targets without it could not call them at all.
        **({} if model.searches_tools else {"supports_search_tool": False}),
    }
    # At nine tenths, or earlier in a small window: leave room for the answer and a quarter of that for the next words.
    limit = min(window * 9 // 10, window - reserve_tokens(window) * 5 // 4)
    return {**entry, "auto_compact_token_limit": limit} if model.compacts_early else entry


CODEX = Client(
    "codex",
    agents=("codex",),
    session_headers=("thread-id", "session-id"),
    telling_headers=(_METADATA,),
    telling_fields=("client_metadata",),
    read_stated=read_stated,
    turn_state_header="x-codex-turn-state",
    models=ModelList("client_version", STORED_MODELS, write_models),
    words_begin_after=("## My request for Codex:",),
    canned=frozenset(("<image>", "</image>")),
    default_efforts=("medium",),
    tags=(
        "environment_context",
        "additional_context",
        "user_instructions",
        "user_shell_command",
        "user_action",
        "codex_internal_context",
        "goal_context",
        "hook_prompt",
        "recommended_plugins",
        "token_budget",
        "model_switch",
        "turn_aborted",
    ),
    starts=(
        "# AGENTS.md instructions for",
        "<skill>\n<name>",
        "Warning: The maximum number of unified exec processes",
        "Warning: apply_patch was requested via",
        "<image name=[Image #",
    ),
    summaries=("Another language model started to solve this problem",),
    compactions=("You are performing a CONTEXT CHECKPOINT COMPACTION",),
    plan=PlanMarks(
        on=("<collaboration_mode># Plan Mode",), off=("<collaboration_mode># Collaboration Mode",), proposal="<proposed_plan>"
    ),
    header_marks=(("x-openai-subagent", TurnKind.SUBAGENT),),
)
