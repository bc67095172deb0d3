"""Finds the caller of a request from its head."""

import hmac
import math
import time
from collections.abc import Mapping

from router.contract.caller import ANYONE, LOCAL, SCRAPER, Caller
from router.contract.credential import read_credentials
from router.contract.keys import Key, KeyRing, digest_of, read_token
from router.edge.routes import METRICS, OPEN_FOLDER, OPEN_PATHS, Head, dialect_of_path
from router.plan import Plan


def identify(plan: Plan, head: Head, headers: Mapping[str, str]) -> Caller:
    """The caller of a request. Raises `Unauthorized` where a valid key of this router is required.

    Without keys the router serves loopback alone and has one caller. Where callers bring their own keys for a target, each key
    is a caller, named by a digest, so that stored responses stay apart. The login of a plan names nobody: its client renews it
    in the middle of a session, whose memory must last.
    """
    keys = plan.keys
    if keys is not None:
        is_known = head.ring is keys and time.time() < head.expires_at
        return head.caller if is_known else _find_caller(plan, keys, head)
    if not plan.takes_callers_keys:
        return LOCAL
    found = read_credentials(headers, dialect_of_path(head.path))
    return Caller(f"key-{found[0].digest}") if found and not found[0].is_login else LOCAL


def is_metrics_key(plan: Plan, token: str) -> bool:
    """Whether a token is the key that opens `/metrics` alone, compared in constant time."""
    return plan.metrics_key is not None and hmac.compare_digest(digest_of(token), plan.metrics_key)


def _find_caller(plan: Plan, keys: KeyRing, head: Head) -> Caller:
    token = head.token
    if token is None:
        token = head.token = read_token(head.headers)
        head.headers = keys.clean(head.headers)
    if head.route is None and (head.path in OPEN_PATHS or head.path.startswith(OPEN_FOLDER)):
        return ANYONE
    if head.path == METRICS and is_metrics_key(plan, token):
        return SCRAPER
    return know_by(keys.find(token, time.time()), keys, head)


def know_by(key: Key, keys: KeyRing, head: Head) -> Caller:
    """Cache the caller of a valid key on the head."""
    head.key = key.id
    head.ring, head.caller = keys, key.caller
    head.expires_at = math.inf if key.expires_at is None else key.expires_at
    return key.caller
