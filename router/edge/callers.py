"""Who sends a request, by its headers."""

from collections.abc import Mapping
from hashlib import blake2b

from router.contract.caller import LOCAL, Caller
from router.contract.secret import read_callers_key
from router.edge.routes import dialect_of_path
from router.plan import Plan

_DIGEST_BYTES = 12


def identify(plan: Plan, headers: Mapping[str, str], path: str) -> Caller:
    """The caller of a request. The router listens on loopback alone and asks for no key, so there is one caller.

    Where callers bring their own keys for a target, each key is a caller, known by a digest: what one of them stored is not
    another's. A caller who brings no key is the local one.
    """
    if not plan.takes_callers_keys:
        return LOCAL
    key = read_callers_key(headers, dialect_of_path(path))
    if not key:
        return LOCAL
    digest = blake2b(key.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES, person=b"tandem.caller")
    return Caller(f"key-{digest.hexdigest()}")
