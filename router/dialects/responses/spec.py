"""The Responses API as one object."""

from router.contract.words import Dialect, Operation
from router.dialects.chat import answer as chat_answer
from router.dialects.responses import answer, logged, request
from router.dialects.spec import OPENAI_LIMITS, Closing, DialectSpec, Silent, Translation, later

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
    unsent_fields=frozenset(),
    counts_tokens_here=True,
    reads_catalogue=True,
    has_socket=True,
    own_header=None,
    refuse_dated=None,
    recognise=request.recognise,
    write_example=request.write_example,
    stream_fields={"stream": True},
    read=request.read,
    silent=Silent("type", request.SILENT_ITEMS),
    add_instructions=request.add_instructions,
    limit_fields=request.LIMIT_FIELDS,
    reasoning_fields=("reasoning",),
    effort_holder="reasoning",
    opaque_keys=request.opaque_keys,
    without_opaque=request.without_opaque,
    without_wrapped=request.without_wrapped,
    telling=answer.TELLING,
    read_end=answer.read_end,
    read_answer=answer.read_answer,
    first_token_mark=b".delta",
    composer=later("router.dialects.responses.compose", "ResponsesComposer"),
    write_refusal=chat_answer.write_refusal,
    write_failure=answer.write_failure,
    write_cut=logged.write_cut,
    closing=Closing(
        answer.END_MARK, answer.IS_OPEN, answer.read_finish, answer.find_texts, answer.add_to_stream, answer.add_to_whole
    ),
    limits=OPENAI_LIMITS,
    word_too_long=chat_answer.word_too_long,
    translation=Translation(
        later("router.dialects.responses.draft_reader", "read_draft"),
        later("router.dialects.responses.draft_writer", "write_draft"),
        later("router.dialects.responses.parse", "ResponsesParser"),
    ),
)
