"""The old text endpoint as one object. What it shares with chat is chat's."""

from router.contract.words import Dialect, Operation
from router.dialects.chat import answer
from router.dialects.completions import request
from router.dialects.completions.compose import CompletionsComposer
from router.dialects.spec import DialectSpec

COMPLETIONS = DialectSpec(
    name=Dialect.COMPLETIONS,
    paths={Operation.CREATE: "/completions"},
    list_field="prompt",
    is_conversation=False,
    continues_responses=False,
    has_threads=False,
    counts_tokens_here=False,
    reads_catalogue=False,
    has_socket=False,
    own_header=None,
    refuse_dated=None,
    recognise=request.recognise,
    write_example=request.write_example,
    stream_fields={"stream": True},
    read=request.read,
    add_instructions=request.add_instructions,
    limit_fields=request.LIMIT_FIELDS,
    reasoning_fields=(),
    effort_holder=None,
    opaque_keys=request.opaque_keys,
    without_opaque=request.without_opaque,
    without_wrapped=None,
    telling=answer.TELLING,
    read_end=answer.read_end,
    read_answer=answer.read_answer,
    first_token_mark=b'"text"',
    composer=CompletionsComposer,
    write_refusal=answer.write_refusal,
    write_failure=answer.write_failure,
    word_too_long=answer.word_too_long,
    translation=None,
)
