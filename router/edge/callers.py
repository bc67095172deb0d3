"""The caller of a request, found by its head."""

import hmac
import math
import time
from collections.abc import Mapping
from hashlib import blake2b

from router.contract.caller import ANYONE, LOCAL, SCRAPER, Caller
from router.contract.keys import CREDENTIALS, Key, KeyRing, digest_of, read_token
from router.contract.secret import read_callers_key
from router.edge.routes import METRICS, OPEN_FOLDER, OPEN_PATHS, Head, dialect_of_path
from router.plan import Plan

_DIGEST_BYTES = 12


def identify(plan: Plan, head: Head, headers: Mapping[str, str]) -> Caller:
    """The caller of a request. Raises `Unauthorized` where a key of this router is needed and none came that is valid.

    A router without keys listens on loopback alone, and there is one caller. Where callers bring their own keys for a target,
    each of those is a caller, known by a digest: what one of them stored is not another's. A caller who brings none is the
    local one.
    """
    keys = plan.keys
    if keys is not None:
        is_known = head.ring is keys and time.time() < head.expires_at
        return head.caller if is_known else _find_caller(plan, keys, head)
    if not plan.takes_callers_keys:
        return LOCAL
    key = read_callers_key(headers, dialect_of_path(head.path))
    if not key:
        return LOCAL
    digest = blake2b(key.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES, person=b"tandem.caller")
    return Caller(f"key-{digest.hexdigest()}")


def is_metrics_key(plan: Plan, token: str) -> bool:
    """Whether a token is the key that opens `/metrics` alone. The time that this takes says nothing of either."""
    return plan.metrics_key is not None and hmac.compare_digest(digest_of(token), plan.metrics_key)


def _find_caller(plan: Plan, keys: KeyRing, head: Head) -> Caller:
    """The caller of a key. The key is taken out of the headers: nothing after this sees it."""
    token = head.token
    if token is None:
        token = head.token = read_token(head.headers)
        head.headers = keys.clean({name: value for name, value in head.headers.items() if name not in CREDENTIALS})
    if head.route is None and (head.path in OPEN_PATHS or head.path.startswith(OPEN_FOLDER)):
        return ANYONE
    if head.path == METRICS and is_metrics_key(plan, token):
        return SCRAPER
    return know_by(keys.find(token, time.time()), keys, head)


def know_by(key: Key, keys: KeyRing, head: Head) -> Caller:
    """Note whose request it is, by a key that was found valid: `identify` then takes it as it is."""
    head.key = key.id
    head.ring, head.caller = keys, key.caller
    head.expires_at = math.inf if key.expires_at is None else key.expires_at
    return key.caller
