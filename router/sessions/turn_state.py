"""Tokens that clients carry through a turn: some send a header of the answer back until the turn ends.

A token names the turn's tier, which so survives a forgotten session. It is bound to session and turn, and signed.
"""

import hmac
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import blake2b

from router.contract.credential import ACCOUNT
from router.contract.decision import Decision
from router.contract.relay import Headers
from router.contract.request import RequestView
from router.contract.session import SessionSnapshot
from router.contract.signals import Turn
from router.contract.words import Tier
from router.dialects.fields import as_object, as_text
from router.sessions.clients import CLIENTS
from router.sessions.marks import mark_turn
from router.sessions.moves import REMEMBERED, higher_of, is_aside

_PREFIX = "tandem"
_HEADERS = {client.name: client.turn_state_header for client in CLIENTS if client.turn_state_header}


def make_key() -> bytes:
    return os.urandom(32)


def derive_key(secret: str) -> bytes:
    """The key of all routers that share a secret."""
    return blake2b(secret.encode(), digest_size=32, person=b"turn token").digest()


class TurnTokens:
    """Writes and reads tokens. The key is read on first use; by default it lasts as long as the process."""

    def __init__(self, read_key: Callable[[], bytes] = make_key) -> None:
        self._read_key = read_key

    @cached_property
    def _key(self) -> bytes:
        return self._read_key()

    def read(self, view: RequestView, turn: Turn, session: str) -> Tier | None:
        """The tier in this turn's token, from a header or the client's metadata."""
        header = _HEADERS.get(turn.client)
        if header is None:
            return None
        token = view.headers.get(header)
        if token is None:
            token = as_text(as_object(view.body.get("client_metadata")).get(header))
        prefix, _, rest = token.partition(".")
        name, _, signature = rest.partition(".")
        if prefix != _PREFIX or name not in ("fast", "deep"):
            return None
        tier = Tier(name)
        expected = self._sign(session, mark_turn(turn), tier)
        return tier if hmac.compare_digest(signature.encode("utf-8", "replace"), expected.encode()) else None

    def carry(self, session: SessionSnapshot, view: RequestView, decision: Decision) -> Mapping[Tier, Headers]:
        """Headers with a token for an answer from each tier; empty for clients that carry none."""
        turn = decision.turn
        header = _HEADERS.get(turn.client)
        if header is None or turn.kind not in REMEMBERED or ACCOUNT in view.headers:
            return {}  # with a login the header is its vendor's
        found: dict[Tier, Headers] = {}
        for served in Tier:
            tier = session.position.tier if is_aside(session, view) else higher_of(decision.tier, served)
            if tier is not None:
                token = f"{_PREFIX}.{tier}.{self._sign(str(session.key), mark_turn(turn), tier)}"
                found[served] = ((header, token),)
        return found

    def _sign(self, session: str, turn: str, tier: Tier) -> str:
        return blake2b(f"{session}\0{turn}\0{tier}".encode("utf-8", "replace"), key=self._key, digest_size=16).hexdigest()
