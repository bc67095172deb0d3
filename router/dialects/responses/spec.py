"""The Responses API as one object."""

from router.contract.words import Dialect, Operation
from router.dialects.chat.answer import word_too_long, write_refusal
from router.dialects.responses.answer import TELLING, read_answer, read_end, write_failure
from router.dialects.responses.compose import ResponsesComposer
from router.dialects.responses.draft_reader import read_draft
from router.dialects.responses.draft_writer import write_draft
from router.dialects.responses.opaque import opaque_keys, without_opaque, without_wrapped
from router.dialects.responses.parse import ResponsesParser
from router.dialects.responses.request import LIMIT_FIELDS, add_instructions, read, recognise, write_example
from router.dialects.spec import DialectSpec, Translation

RESPONSES = DialectSpec(
    name=Dialect.RESPONSES,
    paths={
        Operation.CREATE: "/responses",
        Operation.COUNT_TOKENS: "/responses/input_tokens",
        Operation.COMPACT: "/responses/compact",
    },
    list_field="input",
    is_conversation=True,
    continues_responses=True,
    has_threads=False,
    counts_tokens_here=True,
    reads_catalogue=True,
    has_socket=True,
    own_header=None,
    refuse_dated=None,
    recognise=recognise,
    write_example=write_example,
    stream_fields={"stream": True},
    read=read,
    add_instructions=add_instructions,
    limit_fields=LIMIT_FIELDS,
    reasoning_fields=("reasoning",),
    effort_holder="reasoning",
    opaque_keys=opaque_keys,
    without_opaque=without_opaque,
    without_wrapped=without_wrapped,
    telling=TELLING,
    read_end=read_end,
    read_answer=read_answer,
    first_token_mark=b".delta",
    composer=ResponsesComposer,
    write_refusal=write_refusal,
    write_failure=write_failure,
    word_too_long=word_too_long,
    translation=Translation(read_draft, write_draft, ResponsesParser),
)
