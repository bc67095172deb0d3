"""Chat Completions as one object."""

from router.contract.words import Dialect, Operation
from router.dialects.chat.answer import TELLING, read_answer, read_end, word_too_long, write_failure, write_refusal
from router.dialects.chat.draft_reader import read_draft
from router.dialects.chat.draft_writer import write_draft
from router.dialects.chat.old_calls import compose_chat
from router.dialects.chat.parse import ChatParser
from router.dialects.chat.request import (
    LIMIT_FIELDS,
    add_instructions,
    opaque_keys,
    read,
    recognise,
    without_opaque,
    write_example,
)
from router.dialects.spec import DialectSpec, Translation

CHAT = DialectSpec(
    name=Dialect.CHAT,
    paths={Operation.CREATE: "/chat/completions"},
    list_field="messages",
    is_conversation=True,
    continues_responses=False,
    has_threads=False,
    counts_tokens_here=False,
    reads_catalogue=False,
    has_socket=False,
    own_header=None,
    refuse_dated=None,
    recognise=recognise,
    write_example=write_example,
    stream_fields={"stream": True, "stream_options": {"include_usage": True}},
    read=read,
    add_instructions=add_instructions,
    limit_fields=LIMIT_FIELDS,
    reasoning_fields=("reasoning_effort", "reasoning"),
    effort_holder=None,
    opaque_keys=opaque_keys,
    without_opaque=without_opaque,
    without_wrapped=None,
    telling=TELLING,
    read_end=read_end,
    read_answer=read_answer,
    first_token_mark=b'"delta"',
    composer=compose_chat,
    write_refusal=write_refusal,
    write_failure=write_failure,
    word_too_long=word_too_long,
    translation=Translation(read_draft, write_draft, ChatParser),
)
