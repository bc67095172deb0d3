"""The old text endpoint as one object. What is not named here is chat's."""

from dataclasses import replace

from router.contract.words import Dialect, Operation
from router.dialects.chat.spec import CHAT
from router.dialects.completions import request
from router.dialects.completions.compose import CompletionsComposer
from router.dialects.spec import NOTHING_SILENT

COMPLETIONS = replace(
    CHAT,
    name=Dialect.COMPLETIONS,
    paths={Operation.CREATE: "/completions"},
    list_field="prompt",
    is_conversation=False,
    recognise=request.recognise,
    write_example=request.write_example,
    stream_fields={"stream": True},
    read=request.read,
    silent=NOTHING_SILENT,
    add_instructions=request.add_instructions,
    limit_fields=request.LIMIT_FIELDS,
    reasoning_fields=(),
    opaque_keys=request.opaque_keys,
    without_opaque=request.without_opaque,
    first_token_mark=b'"text"',
    composer=CompletionsComposer,
    translation=None,
)
