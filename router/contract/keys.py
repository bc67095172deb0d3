"""Callers' keys: `tdm_`, eight hex digits that may be shown, `_`, and 256 random bits, for which a plain digest is enough."""

import hmac
import re
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256

from msgspec import Struct

from router.contract.caller import LOCAL, Caller
from router.contract.errors import Unauthorized
from router.contract.rights import EVERYTHING, NOTHING, Rights
from router.contract.secret import OWN_PREFIX, ROUTER_KEY, UPSTREAM_KEY, mask_keys

OWN_ID = "00000000"
"""The key that a running router makes for commands of its own user."""
CREDENTIALS = ("authorization", "x-api-key")
"""Headers that hold a caller's key. A router with keys passes them on only where its own key came in `x-tandem-key`."""
_ID_BYTES, _SECRET_BYTES = 4, 32
_is_key = re.compile(rf"{OWN_PREFIX}([0-9a-f]{{8}})_([A-Za-z0-9_-]{{43}})").fullmatch
_NOBODY = sha256(b"nobody").digest()


class Key(Struct, frozen=True):
    id: str
    caller: Caller
    digest: bytes
    expires_at: float | None = None
    """Seconds since 1970."""


class NewKey(Struct, frozen=True):
    """`text` is shown once and kept nowhere."""

    id: str
    text: str
    digest: bytes


def make_key(key_id: str = "") -> NewKey:
    key_id = key_id or secrets.token_hex(_ID_BYTES)
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return NewKey(key_id, f"{OWN_PREFIX}{key_id}_{secret}", digest_of(secret))


def digest_of(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def split_key(text: str) -> tuple[str, str] | None:
    found = _is_key(text)
    return (found[1], found[2]) if found is not None else None


def read_token(headers: Mapping[str, str]) -> str:
    """The key from `x-tandem-key`, else from `Authorization: Bearer` or `x-api-key`; empty for none."""
    if own := headers.get(ROUTER_KEY, "").strip():
        return own
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return bearer if bearer.startswith(OWN_PREFIX) else headers.get("x-api-key", "").strip() or bearer


class KeyRing:
    """A config's keys by id, and rights by caller name."""

    __slots__ = ("_keys", "_revoked", "is_blank", "rights")

    def __init__(
        self, keys: Iterable[Key], rights: Mapping[str, Rights], revoked: Collection[bytes] = (), *, is_blank: bool = False
    ) -> None:
        """`revoked`: digests of keys in the file that no longer work. `is_blank`: the file has nothing in it."""
        self._keys = {key.id: key for key in keys}
        self.rights, self.is_blank = rights, is_blank
        self._revoked = revoked

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def with_own(self, own: Key) -> "KeyRing":
        """Add the router's own key, whose caller may do everything."""
        return KeyRing([*self._keys.values(), own], {**self.rights, LOCAL.name: EVERYTHING}, self._revoked)

    def without(self, digests: Collection[bytes]) -> "KeyRing":
        """Drop revoked keys. Their callers keep their rights."""
        if not digests:
            return self
        revoked = {key.digest for key in self if key.digest in digests}
        return KeyRing([key for key in self if key.digest not in revoked], self.rights, revoked)

    def clean(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Take the router's key out, and mask misplaced ones. A target's key may be another router's: it stays.

        Next to `x-tandem-key` the other credentials are the caller's own, for targets that take them.
        """
        taken = (ROUTER_KEY,) if headers.get(ROUTER_KEY, "").strip() else (ROUTER_KEY, *CREDENTIALS)
        headers = {
            name: value
            for name, value in headers.items()
            if name not in taken and not (name in CREDENTIALS and OWN_PREFIX in value)
        }
        if OWN_PREFIX not in "\n".join(headers.values()):
            return headers
        cleaned = {name: mask_keys(value) for name, value in headers.items()}
        given = split_key(headers.get(UPSTREAM_KEY, "").strip())
        if given is not None and given[0] not in self._keys:
            cleaned[UPSTREAM_KEY] = headers[UPSTREAM_KEY]
        return cleaned

    def find(self, token: str, now: float) -> Key:
        """Raises `Unauthorized`, with equal words and work for every fault."""
        key_id, secret = split_key(token) or ("", "")
        key = self._keys.get(key_id)
        matches = hmac.compare_digest(digest_of(secret), _NOBODY if key is None else key.digest)
        if key is None or not matches or (key.expires_at is not None and now >= key.expires_at):
            raise Unauthorized
        return key

    def explain(self, token: str) -> str:
        """Why a key was refused; only for the log."""
        key_id, secret = split_key(token) or ("", "")
        key, digest = self._keys.get(key_id), digest_of(secret)
        if key is None:
            return "revoked at another router" if digest in self._revoked else "not in the key file"
        return "expired" if hmac.compare_digest(digest, key.digest) else "wrong secret"

    def admits(self, caller: Caller, key_id: str | None, now: float) -> bool:
        """Whether a caller may do anything now, with the key of this id if it has one."""
        if key_id is not None and (
            (key := self._keys.get(key_id)) is None or (key.expires_at is not None and now >= key.expires_at)
        ):
            return False
        return caller.name in self.rights

    def renew(self, known: Key, now: float) -> Key | None:
        """The key as it is now; None once it is revoked, replaced or expired."""
        key = self._keys.get(known.id)
        if key is None or key.digest != known.digest or (key.expires_at is not None and now >= key.expires_at):
            return None
        return key


def rights_of(keys: KeyRing | None, caller: Caller, key: str | None, now: float) -> Rights:
    """What a caller may do now with the key of this id. Asked whenever something begins for it, or goes on.

    Without a key, which is how callers were known before the router had keys, the name alone counts.
    """
    if keys is None:
        return EVERYTHING
    return keys.rights[caller.name] if keys.admits(caller, key, now) else NOTHING


def check_caller(keys: KeyRing, caller: Caller, key: str | None) -> None:
    """Raises `Unauthorized` for a caller whose key was revoked or has expired."""
    if not keys.admits(caller, key, time.time()):
        raise Unauthorized
