"""Request bytes → `RequestView`, in any dialect."""

from collections.abc import Mapping
from itertools import repeat
from types import MappingProxyType

from msgspec.structs import replace

from router.contract.errors import BadRequest, NotAllowed
from router.contract.exchange import Arrival
from router.contract.request import JsonObject, RequestView
from router.contract.words import Dialect, Operation
from router.dialects.fields import read_model, read_stream
from router.dialects.histories import NO_HISTORIES, Histories
from router.dialects.json_body import NUMBERS, check_numbers, parse_request
from router.dialects.overrides import read_overrides
from router.dialects.table import SPECS

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
_ANY_MODEL = "auto"
_STREAM_FIELDS = frozenset({"stream", "stream_options"})
USUAL_FIELDS = (
    frozenset(
        """
        model messages system input instructions prompt tools tool_choice parallel_tool_calls user metadata store include
        reasoning reasoning_effort thinking response_format text prompt_cache_key stop client_metadata output_config
        """.split()
    )
    | NUMBERS
    | _STREAM_FIELDS
)
"""Requests with only these need no check for refused fields."""


def read_request(arrival: Arrival, histories: Histories = NO_HISTORIES) -> RequestView:
    """Raises `BadRequest` and its kin."""
    body, has_one_model, history = parse_request(arrival, histories)
    if not USUAL_FIELDS.issuperset(body):
        refuse_library_fields(body)
    try:
        model = read_model(body)
    except BadRequest:
        is_count = arrival.operation is Operation.COUNT_TOKENS and SPECS[arrival.dialect].counts_tokens_here
        if body.get("model") is not None or not is_count:  # a local count is equal for all models
            raise
        model = _ANY_MODEL
    if not NUMBERS.isdisjoint(body):
        check_numbers(body)
    spec = SPECS[arrival.dialect]
    if spec.refuse_dated is not None:
        spec.refuse_dated(body, arrival.raw, arrival.headers.get(spec.own_header or "", ""))
    reading = spec.read(body, arrival.operation, history)
    is_streaming = not _STREAM_FIELDS.isdisjoint(body) and read_stream(body) and arrival.operation is not Operation.COUNT_TOKENS
    # Positional first: calls with all arguments by name build a dictionary.
    return RequestView(
        arrival.id,
        arrival.dialect,
        arrival.operation,
        arrival.raw,
        body,
        arrival.headers,
        model,
        is_streaming,
        reading.system,
        reading.conversation,
        reading.needs,
        overrides=read_overrides(arrival.headers),
        effort=reading.effort,
        image_count=reading.seen.image_count,
        media_bytes=reading.seen.media_bytes,
        bound=reading.seen.bound,
        hosted=reading.hosted,
        caller=arrival.caller,
        previous_response_id=reading.previous_response_id,
        has_one_model=has_one_model,
        moment=arrival.moment,
    )


def read_again(view: RequestView) -> RequestView:
    """The request as its `body` says, which was changed."""
    body = view.body
    reading = SPECS[view.dialect].read(body, view.operation, view.conversation.history)
    return replace(
        view,
        is_streaming=read_stream(body) and view.operation is not Operation.COUNT_TOKENS,
        system=reading.system,
        conversation=reading.conversation,
        needs=reading.needs,
        effort=reading.effort,
        image_count=reading.seen.image_count,
        media_bytes=reading.seen.media_bytes,
        bound=reading.seen.bound,
        hosted=reading.hosted,
        previous_response_id=reading.previous_response_id,
    )


def refuse_library_fields(body: JsonObject) -> None:
    """Refuse fields that an upstream client library would obey: they could send our keys elsewhere."""
    if _REFUSED_FIELDS.isdisjoint(body) and not any(map(str.startswith, body, repeat(_REFUSED_PREFIXES))):
        return
    for name in body:
        if name in _REFUSED_FIELDS or name.startswith(_REFUSED_PREFIXES):
            raise NotAllowed(
                f"{name[:60]}: not allowed in a request. Only the operator can set it, in config.yaml", param=name[:60]
            )


def guess_dialect(body: JsonObject, headers: Mapping[str, str] = MappingProxyType({})) -> Dialect:
    """The dialect of a body without a route, from its headers and fields; chat by default."""
    for name, spec in SPECS.items():
        if spec.own_header in headers and spec.list_field in body:
            return name
    return next(name for name, spec in SPECS.items() if spec.recognise(body))
