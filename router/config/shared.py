"""What routers share. The addresses may hold passwords, which no fault shows."""

import os
import secrets
import socket
from collections.abc import Mapping
from functools import cache
from urllib.parse import urlsplit

from router.config.faults import Fault
from router.config.secrets import SecretChecker
from router.config.shared_settings import SharedSettings
from router.contract.secret import Secret
from router.contract.shared import PostgresTerms, SharedTerms, ValkeyTerms

_LEAST_SECRET_BYTES = 32
_MAX_NAME = 40
_POSTGRES = ("postgresql", "postgres")
_POSTGRES_EXAMPLE = "postgresql://user:password@host:5432/database"
_VALKEY = ("redis", "rediss", "unix", "valkey", "valkeys")
_VALKEY_EXAMPLE = "redis://user:password@host:6379/0, rediss://… for TLS, or unix:///path/to/socket"


def check_shared(settings: SharedSettings, keys: Mapping[str, str], faults: list[Fault]) -> SharedTerms | None:
    """What a config shares, with its addresses and secret read; None where it shares nothing."""
    valkey = postgres = None
    if settings.valkey is not None:
        address = _read_url("shared.valkey.url", settings.valkey.url, _VALKEY, _VALKEY_EXAMPLE, keys, faults)
        valkey = ValkeyTerms(address, settings.valkey.timeout_ms / 1_000, settings.valkey.prefix)
    if settings.postgres is not None:
        address = _read_url("shared.postgres.url", settings.postgres.url, _POSTGRES, _POSTGRES_EXAMPLE, keys, faults)
        postgres = PostgresTerms(address, settings.postgres.timeout_ms / 1_000, settings.postgres.connections)
    secret = _read_secret(settings.secret, keys, faults)
    if valkey is None and postgres is None and secret is None:
        return None
    return SharedTerms(settings.replica or name_replica(), valkey, postgres, secret, settings.when_blind)


@cache
def name_replica() -> str:
    """The name of this process: that of its machine and a random end."""
    host = "".join(letter for letter in socket.gethostname() if letter.isascii() and (letter.isalnum() or letter in "-."))
    return f"{host[:_MAX_NAME] or 'router'}-{secrets.token_hex(3)}"


def _read_secret(source: str | None, keys: Mapping[str, str], faults: list[Fault]) -> Secret | None:
    if source is None:
        return None
    secret, path = Secret(source), "shared.secret"
    if not secret.is_reference:
        faults.append(
            Fault(path, "must name a variable", "write env:TANDEM_SHARED_SECRET, and put the secret into that variable")
        )
        return None
    before = len(faults)
    secret = SecretChecker(faults, keys).check(path, source)
    if len(faults) == before and (count := len(secret.reveal().encode())) < _LEAST_SECRET_BYTES:
        problem = f"{secret} has {count} bytes, and must have {_LEAST_SECRET_BYTES} or more"
        faults.append(Fault(path, problem, "make one with: openssl rand -base64 32"))
    return secret


def _read_url(
    path: str, source: str, schemes: tuple[str, ...], example: str, keys: Mapping[str, str], faults: list[Fault]
) -> Secret:
    secret, before = Secret(source), len(faults)
    if not secret.is_reference:
        variable = f"TANDEM_{path.split('.')[1].upper()}_URL"
        hint = f"write env:{variable}, and put the address into that variable"
        faults.append(Fault(path, "must name a variable, since the address may hold a password", hint))
        return secret
    secret = SecretChecker(faults, keys).check(path, source)
    if len(faults) == before and (problem := _find_fault(secret.reveal(), schemes)):
        faults.append(Fault(path, f"{secret} {problem}", f"it looks like {example}"))
    return secret


def _find_fault(url: str, schemes: tuple[str, ...]) -> str:
    """What is wrong with an address; empty for a good one."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in schemes:
            return f"does not begin with {schemes[0]}://"
        if parts.scheme == "unix":
            return "" if os.path.isabs(parts.path) else "has no absolute path"
        _ = parts.port if "," not in parts.netloc else None  # several hosts, each with its port, are the driver's own form
        if schemes is _VALKEY and not (parts.path in ("", "/") or parts.path[1:].isdecimal()):
            return "must end with the number of a database, such as /0"
    except ValueError:
        return "is not a valid address"
    return ""
