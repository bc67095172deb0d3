"""Anthropic Messages as one object."""

from router.contract.words import Dialect, Operation
from router.dialects.messages.answer import TELLING, read_answer, read_end
from router.dialects.messages.compose import MessagesComposer
from router.dialects.messages.draft_reader import read_draft
from router.dialects.messages.draft_writer import write_draft
from router.dialects.messages.opaque import opaque_keys, without_opaque, without_wrapped
from router.dialects.messages.parse import MessagesParser
from router.dialects.messages.refusal import word_too_long, write_failure, write_refusal
from router.dialects.messages.request import LIMIT_FIELDS, add_instructions, read, recognise, write_example
from router.dialects.messages.versions import VERSION, refuse_dated
from router.dialects.spec import DialectSpec, Translation

MESSAGES = DialectSpec(
    name=Dialect.MESSAGES,
    paths={Operation.CREATE: "/messages", Operation.COUNT_TOKENS: "/messages/count_tokens"},
    list_field="messages",
    is_conversation=True,
    continues_responses=False,
    has_threads=True,
    counts_tokens_here=False,
    reads_catalogue=False,
    has_socket=False,
    own_header=VERSION,
    refuse_dated=refuse_dated,
    recognise=recognise,
    write_example=write_example,
    stream_fields={"stream": True},
    read=read,
    add_instructions=add_instructions,
    limit_fields=LIMIT_FIELDS,
    reasoning_fields=("thinking", "context_management"),
    effort_holder="output_config",
    opaque_keys=opaque_keys,
    without_opaque=without_opaque,
    without_wrapped=without_wrapped,
    telling=TELLING,
    read_end=read_end,
    read_answer=read_answer,
    first_token_mark=b"content_block_delta",
    composer=MessagesComposer,
    write_refusal=write_refusal,
    write_failure=write_failure,
    word_too_long=word_too_long,
    translation=Translation(read_draft, write_draft, MessagesParser),
)
