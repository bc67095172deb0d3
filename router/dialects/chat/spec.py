"""Chat Completions as one object."""

from router.contract.words import Dialect, Operation
from router.dialects.chat import answer, request
from router.dialects.spec import OPENAI_LIMITS, Closing, DialectSpec, Silent, Translation, later

CHAT = DialectSpec(
    name=Dialect.CHAT,
    paths={Operation.CREATE: "/chat/completions"},
    list_field="messages",
    is_conversation=True,
    continues_responses=False,
    unsent_fields=frozenset(),
    counts_tokens_here=False,
    reads_catalogue=False,
    has_socket=False,
    own_header=None,
    refuse_dated=None,
    recognise=request.recognise,
    write_example=request.write_example,
    stream_fields={"stream": True, "stream_options": {"include_usage": True}},
    read=request.read,
    silent=Silent("role", request.TOOL_ROLES),
    add_instructions=request.add_instructions,
    limit_fields=request.LIMIT_FIELDS,
    reasoning_fields=("reasoning_effort", "reasoning"),
    effort_holder=None,
    opaque_keys=request.opaque_keys,
    without_opaque=request.without_opaque,
    without_wrapped=None,
    telling=answer.TELLING,
    read_end=answer.read_end,
    read_answer=answer.read_answer,
    first_token_mark=b'"delta"',
    composer=later("router.dialects.chat.old_calls", "compose_chat"),
    write_refusal=answer.write_refusal,
    write_failure=answer.write_failure,
    write_cut=answer.write_cut,
    closing=Closing(
        answer.END_MARK, answer.IS_OPEN, answer.read_finish, answer.find_texts, answer.add_to_stream, answer.add_to_whole
    ),
    limits=OPENAI_LIMITS,
    word_too_long=answer.word_too_long,
    translation=Translation(
        later("router.dialects.chat.draft_reader", "read_draft"),
        later("router.dialects.chat.draft_writer", "write_draft"),
        later("router.dialects.chat.parse", "ChatParser"),
    ),
)
