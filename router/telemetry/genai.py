"""The names in traces, all in one table: those of OpenTelemetry's conventions for generative AI, and our own.

The conventions are still in development and have no release of their own. `CONVENTIONS` says which state of them is followed.
"""

from typing import NamedTuple

from router.contract.words import Operation

CONVENTIONS = "semantic-conventions-genai 024a4f9, semantic-conventions 1.44.0"
REQUEST, DECIDE, ATTEMPT = "request", "decide", "attempt"


class Attribute(NamedTuple):
    """One attribute: its name, the spans that have it, and what it says."""

    name: str
    spans: tuple[str, ...]
    meaning: str


class Event(NamedTuple):
    """One event of a request's span."""

    name: str
    attributes: tuple[str, ...]
    meaning: str


OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
STREAM = "gen_ai.request.stream"
ANSWERED_BY = "gen_ai.response.model"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT = "gen_ai.usage.input_tokens"
OUTPUT = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
CONVERSATION = "gen_ai.conversation.id"
ERROR = "error.type"
METHOD, ROUTE, STATUS = "http.request.method", "http.route", "http.response.status_code"
PATH, SCHEME = "url.path", "url.scheme"
PROTOCOL = "network.protocol.name"
TIER, BECAUSE, SCORE, DECIDED_BY = "tandem.tier", "tandem.because", "tandem.score", "tandem.decided_by"
REQUEST_ID, OUTCOME, TARGET = "tandem.request_id", "tandem.outcome", "tandem.target"
IS_QUESTION = "tandem.is_question"
WAIT_SECONDS, POSITION, LENGTH = "tandem.queue.seconds", "tandem.queue.position", "tandem.queue.length"
HAS_TURN = "tandem.queue.has_turn"
QUEUED, NOT_SENT = "tandem.queued", "tandem.not_sent"

ATTRIBUTES = (
    Attribute(METHOD, (REQUEST,), "How it was sent. Absent for a request over a WebSocket."),
    Attribute(ROUTE, (REQUEST,), "The route that was asked."),
    Attribute(PATH, (REQUEST,), "The path as the caller wrote it."),
    Attribute(
        SCHEME, (REQUEST,), "`https` where the router itself serves TLS, or else `http`; over a WebSocket `wss` or `ws`."
    ),
    Attribute(PROTOCOL, (REQUEST,), "`websocket` for a request over one. Absent otherwise."),
    Attribute(STATUS, (REQUEST, ATTEMPT), "The status that the caller saw, or that the target answered. Absent without one."),
    Attribute(OPERATION, (REQUEST, ATTEMPT), "`chat`, `text_completion`, `count_tokens`, `compact`, or the route passed on."),
    Attribute(MODEL, (REQUEST, ATTEMPT), "The model that the caller named, and the one that the target was asked for."),
    Attribute(STREAM, (REQUEST, ATTEMPT), "`true` where the answer is streamed. Absent otherwise."),
    Attribute(CONVERSATION, (REQUEST, ATTEMPT), "A digest of the caller and the session, the same for each of its requests."),
    Attribute(ERROR, (REQUEST, ATTEMPT), "The code of the error. Absent where all went well."),
    Attribute(PROVIDER, (ATTEMPT,), "Who serves the model, by the target's address; else whose API the target speaks."),
    Attribute(ANSWERED_BY, (ATTEMPT,), "The model that the target says it used. Known for Responses only."),
    Attribute(FIRST_CHUNK, (ATTEMPT,), "Seconds from the call to the first token of a stream."),
    Attribute(INPUT, (ATTEMPT,), "Tokens of the prompt, with the cached ones. Estimated where the target did not say them."),
    Attribute(OUTPUT, (ATTEMPT,), "Tokens of the answer, with those of the reasoning."),
    Attribute(CACHE_READ, (ATTEMPT,), "Tokens of the prompt that came from the provider's cache. Absent for 0."),
    Attribute(CACHE_WRITE, (ATTEMPT,), "Tokens of the prompt that went into that cache. Absent for 0."),
    Attribute(REASONING, (ATTEMPT,), "Tokens of the answer that were reasoning. Absent for 0."),
    Attribute(TIER, (REQUEST, DECIDE, ATTEMPT), "The tier that served, that was decided on, or that the target belongs to."),
    Attribute(BECAUSE, (REQUEST, DECIDE), "Why, in the sentence of `x-tandem-because`. It quotes no words of a prompt."),
    Attribute(SCORE, (DECIDE,), "The chance that the turn is a long task, 0 to 1."),
    Attribute(DECIDED_BY, (DECIDE,), "`estimate`, `rule_out`, or the policy that insisted."),
    Attribute(REQUEST_ID, (REQUEST,), "The request's id, for `tandem why`."),
    Attribute(OUTCOME, (REQUEST,), "How the request ended, as in the ledger."),
    Attribute(TARGET, (REQUEST, ATTEMPT), "The target that served or was tried last, and the one that was called."),
    Attribute(
        IS_QUESTION,
        (ATTEMPT,),
        "`true` where the target was only asked about the turn: for a second opinion, or to look it over. Absent otherwise.",
    ),
)
EVENTS = (
    Event(QUEUED, (TARGET, WAIT_SECONDS, POSITION, LENGTH, HAS_TURN), "The request waited for room at a target."),
    Event(NOT_SENT, (TARGET, ERROR), "A target could only have misunderstood the request, and was not called."),
)

_PROVIDERS = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gemini": "gcp.gemini",
    "groq": "groq",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "openai": "openai",
    "perplexity": "perplexity",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""The conventions' words for providers, by the names that litellm has for them."""


def name_operation(operation: Operation, *, is_conversation: bool) -> str:
    """What a request asks for, in the conventions' words where they have one."""
    if operation is not Operation.CREATE:
        return operation.value
    return "chat" if is_conversation else "text_completion"


def name_provider(known: str, adapter: str) -> str:
    """The conventions' word for a provider that litellm knows by this name; else whose API the adapter speaks."""
    if known:
        return _PROVIDERS.get(known, known)
    return {"anthropic_http": "anthropic", "simulated": "tandem.simulated"}.get(adapter, "openai")
