"""Both tiers on one task: deep plans and fast edits (`plan`), fast works and deep looks it over (`look`). Off by default."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue, WithJsonSchema
from pydantic_core import CoreSchema

from router.contract.block import ELSEWHERE, Block
from router.contract.errors import NotPermitted
from router.contract.request import RequestView
from router.contract.rights import BOTH_TIERS, Rights, rights_in
from router.contract.signals import SessionPosition
from router.contract.words import Word

PLAN, LOOK, OFF = "plan", "look", "off"
COMBINE = "x-tandem-combine"
_ON_AND_OFF = {False: OFF, True: "on"}
"""YAML reads `off` and `on` as these."""


class LookWhen(Word):
    """Which turns deep looks over."""

    OFF = OFF
    AUTO = "auto"
    ALWAYS = "always"


class LookTell(Word):
    """How objections reach the person."""

    ANSWER = "answer"
    LATER = "later"


_OF_HEADER = {LookWhen.OFF: LookWhen.AUTO, LookWhen.AUTO: LookWhen.AUTO, LookWhen.ALWAYS: LookWhen.ALWAYS}
"""The config says when; a header only that."""


def _as_written(value: object) -> object:
    return _ON_AND_OFF[value] if isinstance(value, bool) else value


def _as_terms(value: object) -> object:
    """`look: auto` for `look: {when: auto}`."""
    value = _as_written(value)
    if isinstance(value, dict):
        return {"when": LookWhen.AUTO, **value}
    return {"when": value} if isinstance(value, str) else value


class _OrWord:
    """Annotates a block of which a word is the short form."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"enum": [*map(str, LookWhen)]}]}


class LookTerms(Block, frozen=True):
    """How deep looks over what fast did."""

    when: Annotated[LookWhen, BeforeValidator(_as_written)] = LookWhen.OFF
    """auto (default in a block): where it should pay. always: turns with edits and no passing test."""
    tell: LookTell = LookTell.ANSWER
    """answer: fast's answer waits for objections. later: a background job."""
    max_seconds: Annotated[float, Field(gt=0, le=600)] = 20.0
    """How long an answer waits."""
    daily_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    """Known cost of looks a day, all callers together."""
    prompt: str | None = None
    """File with the question to deep."""
    question: Annotated[str, ELSEWHERE] = ""
    """The text of `prompt`; empty: Tandem's own."""


class Combine(Block, frozen=True):
    """Both tiers on one task."""

    plan: Annotated[bool, WithJsonSchema({"enum": [OFF, "on", False, True]})] = False
    """In plan mode deep plans; once accepted, fast edits, until that fails."""
    look: Annotated[LookTerms, BeforeValidator(_as_terms), _OrWord()] = LookTerms()
    """off, auto, always, or a block: deep looks over fast's work."""

    @property
    def is_on(self) -> bool:
        return self.plan or self.look.when is not LookWhen.OFF


NOTHING = Combine()


class Combining(NamedTuple):
    """What is on for one request. `look` is None where deep looks nothing over."""

    plan: bool = False
    look: LookTerms | None = None

    @property
    def words(self) -> str:
        """What is on, for the ledger and for later calls of the turn: `plan`, `look:auto` or `plan,look:always`."""
        look = f"{LOOK}:{self.look.when}" if self.look is not None else ""
        return ",".join(filter(None, (PLAN if self.plan else "", look)))


class LookEnd(Struct, frozen=True, omit_defaults=True):
    """How deep's look at a turn ended."""

    target: str
    end: str
    """`fine`, `objections`, or why there is none: `late`, `failed`, `refused`, `over budget`, `left`, `superseded`."""
    objections: int = 0
    seconds: float = 0.0
    cost_usd: float | None = None
    """USD; absent where the target has no price. It is part of the cost of the row's request."""


PLANNING = "planning on deep"
"""What the ledger's `combined` says of a turn that its client plans in."""
ACTED_ON, WAVED_OFF = "acted on", "waved off"
"""What a person did about the objections that the session's last answer ended with."""


def combining_for(
    terms: Combine, request: RequestView, position: SessionPosition, rights: Mapping[str, Rights] | None
) -> Combining:
    """What is on for a request: by its header, else as the running turn began, else by the config.

    Nothing for a caller without the right, and no look for one that deep may not serve.
    """
    own, asked, look = rights_in(rights, request.caller.name), request.overrides.combine, terms.look
    if not own.may_combine:
        return Combining()
    if asked is not None:
        plan, when = PLAN in asked, _OF_HEADER[look.when] if LOOK in asked else LookWhen.OFF
    elif position.is_running:
        begun = position.combine
        plan, when = PLAN in begun, next((when for when in LookWhen if f"{LOOK}:{when}" in begun), LookWhen.OFF)
    else:
        plan, when = terms.plan, look.when
    if when is LookWhen.OFF or own.tiers != BOTH_TIERS:
        return Combining(plan)
    return Combining(plan, look if look.when is when else replace(look, when=when))


def check_combining(asked: str, rights: Rights) -> None:
    """Refuse what a caller may not ask for. Raises `NotPermitted`."""
    if asked and not rights.may_combine:
        raise NotPermitted(
            f"{COMBINE} asks for {asked}, and this key does not have the right to combine tiers (may_combine). Send {COMBINE}: "
            f"{OFF}, or leave the header out"
        )
