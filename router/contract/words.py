"""The closed sets: tiers, dialects, features, turn kinds, outcomes. One spelling for code, config, headers and pages."""

from enum import StrEnum


class Word(StrEnum):
    """A closed set of words. Hashed as the text it is: the enum's own hash is a Python call at every look-up."""

    __hash__ = str.__hash__


class Tier(Word):
    """One of the two riders."""

    FAST = "fast"
    DEEP = "deep"

    @property
    def other(self) -> "Tier":
        return Tier.DEEP if self is Tier.FAST else Tier.FAST


class Dialect(Word):
    """How a client or a target speaks. `completions` is the old text endpoint, kept for fill-in-the-middle."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    COMPLETIONS = "completions"


DEFAULT_DIALECT = Dialect.CHAT
"""What is spoken where nothing says otherwise: by a target that can be spoken to in several, and before a path is known."""


class Operation(Word):
    """What a request asks for: an answer, the count of its own tokens, or a shorter history to go on from."""

    CREATE = "create"
    COUNT_TOKENS = "count_tokens"
    COMPACT = "compact"


class PassedRoute(Word):
    """Routes that Tandem does not decide, by the first part of their path. A config may name a target for each."""

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
    """What a request may need and a target may accept."""

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
    """What is wrong at a target so that no request is served there until its operator corrects it."""

    KEY = "key"
    CREDIT = "credit"
    REGION = "region"
    MODEL = "model"


class TurnKind(Word):
    """What a request is, in the life of a session."""

    ASK = "ask"
    FOLLOW_UP = "follow_up"
    TOOL_LOOP = "tool_loop"
    SIDE = "side"
    COMPACTION = "compaction"
    SUBAGENT = "subagent"
    PREWARM = "prewarm"


PERSONS_KINDS = (TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.TOOL_LOOP)
"""Turns that a person typed, as opposed to requests that a client sends by itself."""


class Outcome(Word):
    """How an admitted request ended."""

    SERVED = "SERVED"
    REFUSED = "REFUSED"
    FAILED = "FAILED"
    CUT_SHORT = "CUT_SHORT"
    ABANDONED = "ABANDONED"
    INTERRUPTED = "INTERRUPTED"
    SUPERSEDED = "SUPERSEDED"


SAID_WRONG = "the last turn seems to have gone wrong"
ASKED_AGAIN = "the same ask again"
"""How policies begin the reason of a lean for a person who is not content with what fast did. The ledger is read by it."""


class Preference(Word):
    """What a wrong first answer costs, against the time that fast saves."""

    SPEED = "speed"
    BALANCED = "balanced"
    QUALITY = "quality"


class Subagents(Word):
    """Where the subagents of clients go."""

    AUTO = "auto"
    FAST = "fast"
    DEEP = "deep"
