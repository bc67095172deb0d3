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
    Attribute(METHOD, (REQUEST,), "Absent on a WebSocket."),
    Attribute(ROUTE, (REQUEST,), "The route asked."),
    Attribute(PATH, (REQUEST,), "As the caller wrote it."),
    Attribute(SCHEME, (REQUEST,), "`https`, `http`, `wss` or `ws`."),
    Attribute(PROTOCOL, (REQUEST,), "`websocket` on one."),
    Attribute(STATUS, (REQUEST, ATTEMPT), "What the caller saw; what the target answered."),
    Attribute(OPERATION, (REQUEST, ATTEMPT), "`chat`, `text_completion`, `count_tokens`, `compact`, or a relayed route."),
    Attribute(MODEL, (REQUEST, ATTEMPT), "As the caller named it; the target's."),
    Attribute(STREAM, (REQUEST, ATTEMPT), "`true` for a stream."),
    Attribute(CONVERSATION, (REQUEST, ATTEMPT), "Digest of caller and session."),
    Attribute(ERROR, (REQUEST, ATTEMPT), "Error code, or `abandoned`."),
    Attribute(PROVIDER, (ATTEMPT,), "By the target's address, else its API."),
    Attribute(ANSWERED_BY, (ATTEMPT,), "As the target reports it (Responses)."),
    Attribute(FIRST_CHUNK, (ATTEMPT,), "Seconds."),
    Attribute(INPUT, (ATTEMPT,), "With cached ones; may be estimated."),
    Attribute(OUTPUT, (ATTEMPT,), "With reasoning."),
    Attribute(CACHE_READ, (ATTEMPT,), "Read from the provider's cache."),
    Attribute(CACHE_WRITE, (ATTEMPT,), "Written to it."),
    Attribute(REASONING, (ATTEMPT,), "Of reasoning."),
    Attribute(TIER, (REQUEST, DECIDE, ATTEMPT), "Served, decided on, or the target's."),
    Attribute(BECAUSE, (REQUEST, DECIDE), "As in `x-tandem-because`."),
    Attribute(SCORE, (DECIDE,), "Chance of a long task."),
    Attribute(DECIDED_BY, (DECIDE,), "`estimate`, `rule_out`, or the policy."),
    Attribute(REQUEST_ID, (REQUEST,), "For `tandem why`."),
    Attribute(OUTCOME, (REQUEST,), "As in the ledger."),
    Attribute(TARGET, (REQUEST, ATTEMPT), "Served or tried last; called."),
    Attribute(IS_QUESTION, (ATTEMPT,), "`true` for a look."),
)
EVENTS = (
    Event(QUEUED, (TARGET, WAIT_SECONDS, POSITION, LENGTH, HAS_TURN), "Waited for room at a target."),
    Event(NOT_SENT, (TARGET, ERROR), "A target could not have understood it."),
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
