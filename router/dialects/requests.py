"""Bytes of a request → `RequestView`, whatever the dialect."""

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from router.contract.errors import NotAllowed, TooDeep
from router.contract.request import JsonObject, RequestView
from router.contract.words import Dialect, Operation
from router.dialects import chat, completions, messages, responses
from router.dialects.fields import Reading, as_object, check_numbers, read_model, read_stream
from router.dialects.json_body import parse_body
from router.dialects.overrides import read_overrides

_REFUSED_FIELDS = frozenset(
    """
    api_base api_key api_type api_version base_url baseurl organization extra_headers extra_body extra_query headers
    custom_headers default_headers http_client client proxy proxies mock_response mock_tool_calls mock_timeout
    fallbacks context_window_fallbacks content_policy_fallbacks custom_llm_provider model_list deployment_id
    litellm_params litellm_metadata litellm_call_id litellm_logging_obj max_retries num_retries ssl_verify
    input_cost_per_token output_cost_per_token azure_ad_token azure_ad_token_provider
    """.split()
)
_REFUSED_PREFIXES = ("aws_", "vertex_", "litellm_", "azure_")


class Arrival(NamedTuple):
    """A request as the edge hands it over: admitted, its body whole, nothing read yet."""

    id: str
    dialect: Dialect
    operation: Operation
    headers: Mapping[str, str]
    raw: bytes
    caller: str = "local"


def read_request(arrival: Arrival) -> RequestView:
    """Read a request once. Raises `BadRequest` and its kin, each naming the field."""
    body = parse_body(arrival.raw)
    _refuse_library_fields(body)
    model = read_model(body)
    check_numbers(body)
    reading = _read_dialect(arrival.dialect, arrival.operation, body)
    return RequestView(
        id=arrival.id,
        dialect=arrival.dialect,
        operation=arrival.operation,
        raw=arrival.raw,
        body=body,
        headers=arrival.headers,
        model=model,
        is_streaming=read_stream(body),
        system=reading.system,
        conversation=reading.conversation,
        needs=frozenset(reading.needs),
        overrides=read_overrides(arrival.headers),
        effort=reading.effort,
        image_count=reading.image_count,
        media_bytes=reading.media_bytes,
        caller=arrival.caller,
    )


def read_anew(view: RequestView, body: JsonObject, raw: bytes) -> RequestView:
    """The same request with another body, read again."""
    reading = _read_dialect(view.dialect, view.operation, body)
    return view._replace(
        raw=raw,
        body=body,
        is_streaming=read_stream(body),
        system=reading.system,
        conversation=reading.conversation,
        needs=frozenset(reading.needs),
        effort=reading.effort,
        image_count=reading.image_count,
        media_bytes=reading.media_bytes,
    )


def rewrite(view: RequestView, changes: JsonObject) -> RequestView:
    """The same request with some fields changed."""
    body = {**view.body, **changes}
    try:
        return read_anew(view, body, orjson.dumps(body))
    except orjson.JSONEncodeError as error:
        raise TooDeep("the JSON is nested too deeply to be written anew: over 250 levels") from error


def _read_dialect(dialect: Dialect, operation: Operation, body: JsonObject) -> Reading:
    match dialect:
        case Dialect.CHAT:
            return chat.read(body)
        case Dialect.RESPONSES:
            return responses.read(body)
        case Dialect.MESSAGES:
            return messages.read(body, operation)
        case Dialect.COMPLETIONS:
            return completions.read(body)


def _refuse_library_fields(body: JsonObject) -> None:
    """A field that a client library behind us would obey could send our keys elsewhere."""
    for name in body:
        if name in _REFUSED_FIELDS or name.startswith(_REFUSED_PREFIXES):
            raise NotAllowed(
                f"{name[:60]}: not allowed in a request. It is the operator's to set in config.yaml", param=name[:60]
            )


def guess_dialect(body: JsonObject) -> Dialect:
    """The dialect of a body that came without a route, from its fields; chat when they do not tell."""
    if "input" in body or body.get("type") == "response.create":
        return Dialect.RESPONSES
    if "prompt" in body and "messages" not in body:
        return Dialect.COMPLETIONS
    if "system" in body or "anthropic_version" in body or "thinking" in body:
        return Dialect.MESSAGES
    tools = body.get("tools")
    if isinstance(tools, list) and tools and "input_schema" in as_object(tools[0]):
        return Dialect.MESSAGES
    return Dialect.CHAT
