"""A token that the client itself carries through a turn: Codex sends `x-codex-turn-state` back until the turn ends.

It names the turn's tier, so that a turn stays where it is even if its session was forgotten here. It is bound to the session
and the turn, and signed with a key of this process: callers cannot forge one.
"""

import hmac
import os
from collections.abc import Mapping
from hashlib import blake2b

from router.contract.decision import Decision
from router.contract.relay import Headers
from router.contract.request import JsonObject, RequestView
from router.contract.session import SessionSnapshot
from router.contract.words import Tier
from router.sessions.marks import mark_turn
from router.sessions.moves import REMEMBERED, higher_of, is_aside

TURN_STATE = "x-codex-turn-state"
_PREFIX = "tandem"
_key = os.urandom(32)


def mint(session: str, turn: str, tier: Tier) -> str:
    """The token for a turn on a tier."""
    return f"{_PREFIX}.{tier}.{_sign(session, turn, tier)}"


def read(headers: Mapping[str, str], body: JsonObject, session: str, turn: str) -> Tier | None:
    """The tier in a token that was minted for this very turn. Over HTTP it comes in a header, else in the metadata."""
    token = headers.get(TURN_STATE)
    if token is None:
        carried = body.get("client_metadata")
        found = carried.get(TURN_STATE) if isinstance(carried, dict) else None
        token = found if isinstance(found, str) else ""
    prefix, _, rest = token.partition(".")
    name, _, signature = rest.partition(".")
    if prefix != _PREFIX or name not in ("fast", "deep"):
        return None
    tier = Tier(name)
    return tier if hmac.compare_digest(signature.encode("utf-8", "replace"), _sign(session, turn, tier).encode()) else None


def carried_headers(session: SessionSnapshot, view: RequestView, decision: Decision) -> Mapping[Tier, Headers]:
    """The token by which a client carries the turn's tier itself, for an answer from each tier; empty for other clients."""
    turn = decision.turn
    if turn.client != "codex" or turn.kind not in REMEMBERED:
        return {}
    found: dict[Tier, Headers] = {}
    for served in Tier:
        tier = session.position.tier if is_aside(session, view) else higher_of(decision.tier, served)
        if tier is not None:
            found[served] = ((TURN_STATE, mint(str(session.key), mark_turn(turn), tier)),)
    return found


def _sign(session: str, turn: str, tier: Tier) -> str:
    return blake2b(f"{session}\0{turn}\0{tier}".encode("utf-8", "replace"), key=_key, digest_size=16).hexdigest()
