"""The fields of a chat request for litellm, so that nothing is lost on the way to the provider."""

from typing import Any

Fields = dict[str, Any]

_FIELDS = frozenset(
    """
    model messages stream stream_options temperature top_p n stop max_tokens max_completion_tokens presence_penalty
    frequency_penalty logit_bias user response_format seed tools tool_choice parallel_tool_calls logprobs top_logprobs
    functions function_call modalities prediction audio reasoning_effort service_tier prompt_cache_key safety_identifier
    verbosity web_search_options thinking top_k
    """.split()
)
"""litellm obeys many other fields, some of which would send a key elsewhere."""
_PROVIDERS_OF_MARKS = frozenset({"anthropic", "bedrock", "vertex_ai", "azure_ai", "openrouter", "databricks"})
_PROVIDERS_WITHOUT_STREAMS = frozenset({"cohere", "cohere_chat"})
"""litellm cannot read these event streams: it parses event names as JSON, and misses tool calls."""
_MARK, _BLOCKS = "cache_control", "thinking_blocks"
_THINKING = ("thinking", "reasoning_effort")


def read_fields(body: Fields) -> Fields:
    fields = {name: value for name, value in body.items() if name in _FIELDS and value is not None}
    messages = fields.get("messages")
    if isinstance(messages, list):
        fields["messages"] = [_raise_mark(message) for message in messages]
    return fields


def takes_marks(model: str) -> bool:
    """Whether a model caches only up to a mark that litellm passes on: Claude, at providers it translates for."""
    return model.partition("/")[0] in _PROVIDERS_OF_MARKS and "claude" in model.lower()


def can_stream(model: str) -> bool:
    return model.partition("/")[0] not in _PROVIDERS_WITHOUT_STREAMS


def as_whole(fields: Fields) -> Fields:
    return _without(fields, "stream", "stream_options")


def _raise_mark(message: Any) -> Any:
    """Move a tool result's mark to its message: on the text it would be inside the cached block."""
    if not isinstance(message, dict) or message.get("role") != "tool" or not isinstance(message.get("content"), list):
        return message
    parts = message["content"]
    mark = next((part[_MARK] for part in reversed(parts) if isinstance(part, dict) and part.get(_MARK)), None)
    if mark is None:
        return message
    plain = [
        {name: value for name, value in part.items() if name != _MARK} if isinstance(part, dict) else part for part in parts
    ]
    return {**message, "content": plain, _MARK: mark}


def without_lost_thinking(fields: Fields) -> Fields:
    """Turn thinking off if the calls being answered came without theirs.

    Claude with a thinking budget refuses such a history, and chat clients seldom return unknown fields. Earlier thinking goes
    too: it is refused while thinking is off.
    """
    messages = fields.get("messages")
    if not isinstance(messages, list) or not any(name in fields for name in _THINKING):
        return fields
    last = next(
        (message for message in reversed(messages) if isinstance(message, dict) and message.get("role") == "assistant"), {}
    )
    if not last.get("tool_calls") or last.get(_BLOCKS):
        return fields
    plain = [_without(message, _BLOCKS) if isinstance(message, dict) else message for message in messages]
    return {**_without(fields, *_THINKING), "messages": plain}


def _without(given: Fields, *names: str) -> Fields:
    return {name: value for name, value in given.items() if name not in names}


def has_thinking_budget(litellm: Any, model: str) -> bool:
    """Whether the model is a Claude that thinks within a budget. Later ones adapt, and take any history."""
    if not takes_marks(model):
        return False
    provider, _, name = model.partition("/")
    try:
        return not litellm.AnthropicConfig.is_adaptive_thinking_model(name, provider)
    except Exception:  # noqa: BLE001  other versions may lack it: assume an older model
        return True
