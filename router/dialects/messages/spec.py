"""Anthropic Messages as one object."""

from router.contract.words import Dialect, Operation
from router.dialects.messages import answer, request
from router.dialects.spec import ANTHROPIC_LIMITS, NOTHING_SILENT, Closing, DialectSpec, Translation, later

MESSAGES = DialectSpec(
    name=Dialect.MESSAGES,
    paths={Operation.CREATE: "/messages", Operation.COUNT_TOKENS: "/messages/count_tokens"},
    list_field="messages",
    is_conversation=True,
    continues_responses=False,
    unsent_fields=frozenset({request.THREAD}),
    counts_tokens_here=False,
    reads_catalogue=False,
    has_socket=False,
    own_header=request.VERSION,
    refuse_dated=request.refuse_dated,
    recognise=request.recognise,
    write_example=request.write_example,
    stream_fields={"stream": True},
    read=request.read,
    silent=NOTHING_SILENT,
    add_instructions=request.add_instructions,
    limit_fields=request.LIMIT_FIELDS,
    reasoning_fields=("thinking", "context_management"),
    effort_holder="output_config",
    opaque_keys=request.opaque_keys,
    without_opaque=request.without_opaque,
    without_wrapped=request.without_wrapped,
    telling=answer.TELLING,
    read_end=answer.read_end,
    read_answer=answer.read_answer,
    first_token_mark=b"content_block_delta",
    composer=later("router.dialects.messages.compose", "MessagesComposer"),
    write_refusal=answer.write_refusal,
    write_failure=answer.write_failure,
    write_cut=answer.write_cut,
    closing=Closing(
        answer.END_MARK, answer.IS_OPEN, answer.read_finish, answer.find_texts, answer.add_to_stream, answer.add_to_whole
    ),
    limits=ANTHROPIC_LIMITS,
    word_too_long=answer.word_too_long,
    translation=Translation(
        later("router.dialects.messages.draft_reader", "read_draft"),
        later("router.dialects.messages.draft_writer", "write_draft"),
        later("router.dialects.messages.parse", "MessagesParser"),
    ),
)
