"""The old text endpoint as one object. What it shares with chat is chat's."""

from router.contract.words import Dialect, Operation
from router.dialects.chat.answer import TELLING, read_answer, read_end, word_too_long, write_failure, write_refusal
from router.dialects.completions.compose import CompletionsComposer
from router.dialects.completions.request import (
    LIMIT_FIELDS,
    add_instructions,
    opaque_keys,
    read,
    recognise,
    without_opaque,
    write_example,
)
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
    recognise=recognise,
    write_example=write_example,
    stream_fields={"stream": True},
    read=read,
    add_instructions=add_instructions,
    limit_fields=LIMIT_FIELDS,
    reasoning_fields=(),
    effort_holder=None,
    opaque_keys=opaque_keys,
    without_opaque=without_opaque,
    without_wrapped=None,
    telling=TELLING,
    read_end=read_end,
    read_answer=read_answer,
    first_token_mark=b'"text"',
    composer=CompletionsComposer,
    write_refusal=write_refusal,
    write_failure=write_failure,
    word_too_long=word_too_long,
    translation=None,
)
