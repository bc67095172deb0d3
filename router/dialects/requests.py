"""Bytes of a request → `RequestView`, whatever the dialect."""

from collections.abc import Mapping
from types import MappingProxyType

import orjson

from router.contract.errors import NotAllowed, TooDeep
from router.contract.exchange import Arrival
from router.contract.request import JsonObject, RequestView
from router.contract.words import Dialect
from router.dialects.fields import check_numbers, read_model, read_stream
from router.dialects.json_body import parse_body
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


def read_request(arrival: Arrival) -> RequestView:
    """Read a request once. Raises `BadRequest` and its kin, each naming the field."""
    body = parse_body(arrival.raw)
    _refuse_library_fields(body)
    model = read_model(body)
    check_numbers(body)
    reading = SPECS[arrival.dialect].read(body, arrival.operation)
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
        previous_response_id=reading.previous_response_id,
    )


def read_anew(view: RequestView, body: JsonObject, raw: bytes) -> RequestView:
    """The same request with another body, read again."""
    reading = SPECS[view.dialect].read(body, view.operation)
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
        previous_response_id=reading.previous_response_id,
    )


def rewrite(view: RequestView, changes: JsonObject) -> RequestView:
    """The same request with some fields changed."""
    body = {**view.body, **changes}
    try:
        return read_anew(view, body, orjson.dumps(body))
    except orjson.JSONEncodeError as error:
        raise TooDeep("the JSON is nested too deeply to be rewritten: over 250 levels") from error


def _refuse_library_fields(body: JsonObject) -> None:
    """Refuse fields that a client library used upstream would obey: they could send our keys elsewhere."""
    for name in body:
        if name in _REFUSED_FIELDS or name.startswith(_REFUSED_PREFIXES):
            raise NotAllowed(
                f"{name[:60]}: not allowed in a request. Only the operator can set it, in config.yaml", param=name[:60]
            )


def guess_dialect(body: JsonObject, headers: Mapping[str, str] = MappingProxyType({})) -> Dialect:
    """The dialect of a body that came without a route, from its headers and fields; chat when they do not tell."""
    for name, spec in SPECS.items():
        if spec.own_header in headers and spec.list_field in body:
            return name
    return next(name for name, spec in SPECS.items() if spec.recognise(body))
