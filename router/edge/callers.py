"""Who sends a request, by its headers."""

from collections.abc import Mapping
from hashlib import blake2b

from router.contract.caller import LOCAL, Caller
from router.contract.secret import read_callers_key
from router.contract.words import Dialect

_DIGEST_BYTES = 12


def identify(headers: Mapping[str, str], dialect: Dialect, *, by_key: bool) -> Caller:
    """The caller of a request. The router listens on loopback alone and asks for no key, so there is one caller.

    Where callers bring their own keys for a target (`by_key`), each key is a caller, known by a digest: what one of them stored
    is not another's. One who brings none is the local one.
    """
    key = read_callers_key(headers, dialect) if by_key else ""
    if not key:
        return LOCAL
    digest = blake2b(key.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES, person=b"tandem.caller")
    return Caller(f"key-{digest.hexdigest()}")
