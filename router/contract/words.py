"""Closed sets of words, with one spelling in code, config, headers and pages."""

from enum import StrEnum


class Word(StrEnum):
    """Hashed as text: an enum's own hash is a Python call at every look-up."""

    __hash__ = str.__hash__


class Tier(Word):
    FAST = "fast"
    DEEP = "deep"

    @property
    def other(self) -> "Tier":
        return Tier.DEEP if self is Tier.FAST else Tier.FAST


class PlanPhase(Word):
    """How far work is that its client plans, where `combine: plan` is on."""

    PLANNING = "planning"
    ACCEPTED = "accepted"
    """The request that begins the edits of an accepted plan."""
    EDITING = "editing"
    """The later requests of those edits."""
    UNKNOWN = "unknown"
    """The client shows no plan mode that Tandem knows."""


class Dialect(Word):
    """`completions` is the old text endpoint, kept for fill-in-the-middle."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    COMPLETIONS = "completions"


class Vendor(Word):
    """Whose keys and logins they are. ChatGPT's backend is not OpenAI's API: neither takes the other's."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    CHATGPT = "chatgpt"

    @property
    def label(self) -> str:
        return {"anthropic": "Anthropic", "openai": "OpenAI", "chatgpt": "ChatGPT"}[self]


DEFAULT_DIALECT = Dialect.CHAT
"""For a target that speaks several, and before a path is known."""


class Operation(Word):
    """An answer, a count of tokens, or a shorter history to continue from."""

    CREATE = "create"
    COUNT_TOKENS = "count_tokens"
    COMPACT = "compact"


class PassedRoute(Word):
    """Routes that are not decided, by the first part of their path. A config may name a target for each."""

    EMBEDDINGS = "embeddings"
    MODERATIONS = "moderations"
    RERANK = "rerank"
    AUDIO = "audio"
    IMAGES = "images"
    VIDEOS = "videos"
    FILES = "files"
    UPLOADS = "uploads"
    BATCHES = "batches"
    VECTOR_STORES = "vector_stores"
    FINE_TUNING = "fine_tuning"


class Feature(Word):
    """What a request may need and a target accept."""

    TEXT = "text"
    TOOLS = "tools"
    IMAGES = "images"
    FILES = "files"
    JSON_SCHEMA = "json_schema"
    CUSTOM_TOOLS = "custom_tools"
    REASONING = "reasoning"
    COMPLETIONS = "completions"
    CACHE_CONTROL = "cache_control"


class AccountFault(Word):
    """What only a target's operator can correct; until then no request is served there."""

    KEY = "key"
    CREDIT = "credit"
    REGION = "region"
    MODEL = "model"


class TurnKind(Word):
    ASK = "ask"
    FOLLOW_UP = "follow_up"
    TOOL_LOOP = "tool_loop"
    SIDE = "side"
    COMPACTION = "compaction"
    SUBAGENT = "subagent"
    PREWARM = "prewarm"


PERSONS_KINDS = (TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.TOOL_LOOP)
"""A person typed these; other requests are the client's own."""
BEGINS = (TurnKind.ASK, TurnKind.FOLLOW_UP)
"""Requests with new words of a person, which begin a turn."""


class Outcome(Word):
    SERVED = "SERVED"
    REFUSED = "REFUSED"
    FAILED = "FAILED"
    CUT_SHORT = "CUT_SHORT"
    ABANDONED = "ABANDONED"
    INTERRUPTED = "INTERRUPTED"
    SUPERSEDED = "SUPERSEDED"

    @property
    def said(self) -> str:
        """In people's words: a caller that left and one that sent a new message both interrupted their turn."""
        return "interrupted" if self is Outcome.ABANDONED else self.lower().replace("_", " ")


NOBODY_SERVED = (Outcome.FAILED, Outcome.REFUSED)

LONG_TASK, MAY_BE_LONG = "looks like a long task", "may be long"
"""What a turn looks like with a chance of 50 % and more, and with less."""


class Preference(Word):
    """What a wrong first answer costs, against the time that fast saves."""

    SPEED = "speed"
    BALANCED = "balanced"
    QUALITY = "quality"


class NearBudget(Word):
    """What becomes of decisions near the end of a budget."""

    LEAN = "lean"
    REFUSE = "refuse"


class Subagents(Word):
    """Where clients' subagents go."""

    AUTO = "auto"
    FAST = "fast"
    DEEP = "deep"
