"""What a router talks to besides targets: alerts, job webhooks, shared stores, a trace collector.

Their addresses and secrets are in variables (`env:NAME`). No fault shows a value.
"""

import base64
import binascii
import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from router.config.faults import Fault
from router.config.models import MetricsSettings
from router.config.secrets import SecretChecker
from router.config.settings import find_address_fault, fits_header
from router.contract.relay import Headers
from router.contract.secret import Secret
from router.contract.shared import PostgresTerms, SharedTerms, ValkeyTerms
from router.contract.webhooks import JobWebhook

_A_VARIABLE = "must name a variable"
_SECRET_PREFIX = "whsec_"  # noqa: S105  prefix of Standard Webhooks secrets
_LEAST_HOOK_BYTES, _LEAST_SHARED_BYTES = 16, 32
_LOCAL_NAMES = ("localhost", "localhost.localdomain")
_MAX_NAME = 40
_POSTGRES = ("postgresql", "postgres")
_POSTGRES_EXAMPLE = "postgresql://user:password@host:5432/database"
_VALKEY = ("redis", "rediss", "unix", "valkey", "valkeys")
_VALKEY_EXAMPLE = "redis://user:password@host:6379/0, rediss://… for TLS, or unix:///path/to/socket"
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_OURS = frozenset({"host", "content-length", "content-type", "connection", "transfer-encoding"})
_Store = TypeVar("_Store", ValkeyTerms, PostgresTerms)


def check_alerts(source: str | None, checker: SecretChecker) -> Secret | None:
    if source is None:
        return None
    path, known = "alerts.webhook", "must be env:NAME, since whoever has the address can write there"
    hint = f"put the address into a variable or into .env, and write {path}: env:ALERTS_WEBHOOK"

    def find_faults(address: str) -> Iterator[tuple[str, str]]:
        if find_address_fault(address) or not address.startswith(("http://", "https://")):
            yield "does not hold an address", "it begins with https:// or http://"

    secret = _read(path, Secret(source), checker, (known, hint), find_faults)
    return secret if secret.is_reference else None


def check_metrics_key(metrics: MetricsSettings, checker: SecretChecker) -> Secret | None:
    if metrics.key is None or not metrics.on:
        return None
    hint = "write env:NAME, and put the key into the variable NAME"
    return _read("metrics.key", Secret(metrics.key), checker, (_A_VARIABLE, hint))


def check_webhooks(hooks: Sequence[JobWebhook], checker: SecretChecker) -> tuple[JobWebhook, ...]:
    found: dict[str, JobWebhook] = {}
    for index, hook in enumerate(hooks):
        path = f"webhooks[{index}]"
        if problem := _find_hook_fault(hook, found):
            checker.faults.append(Fault(f"{path}.url", *problem))
        hint = "write env:NAME, and put the secret into the variable NAME"
        places = [f"{path}.secret"] if len(hook.secret) == 1 else [f"{path}.secret[{at}]" for at in range(len(hook.secret))]
        signing = [
            _read(place, secret, checker, (_A_VARIABLE, hint), _find_signing_faults)
            for place, secret in zip(places, hook.secret, strict=True)
        ]
        found[hook.url] = replace(hook, secret=tuple(signing))
    return tuple(found.values())


def _find_hook_fault(hook: JobWebhook, others: dict[str, JobWebhook]) -> tuple[str, ...] | None:
    if not hook.url.startswith(("http://", "https://")):
        return ("must begin with https:// or http://",)
    if problem := find_address_fault(hook.url):
        return (problem,)
    if "@" in urlsplit(hook.url).netloc:
        return ("must not contain credentials; the signature shows who sent an event",)
    if hook.url in others:
        return "duplicate address", "list all its events in one entry"
    if not hook.allow_private and _is_private(urlsplit(hook.url).hostname or ""):
        return "is a private address", "set allow_private: true if the receiver is meant to be there"
    return None


def _is_private(host: str) -> bool:
    """Whether a host is private by its name alone. Other names are checked when something is sent."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host.lower().rstrip(".") in _LOCAL_NAMES


def _find_signing_faults(value: str) -> Iterator[tuple[str, str]]:
    hint = 'make one: echo "whsec_$(openssl rand -base64 32)"'
    try:
        is_encoded = value.startswith(_SECRET_PREFIX)
        own = base64.b64decode(value.removeprefix(_SECRET_PREFIX), validate=True) if is_encoded else value.encode()
    except binascii.Error:
        yield "begins with whsec_, and the rest is not base64", hint
        return
    if len(own) < _LEAST_HOOK_BYTES:
        yield f"is shorter than {_LEAST_HOOK_BYTES} bytes", hint


def check_shared(terms: SharedTerms, checker: SecretChecker) -> SharedTerms | None:
    if terms.valkey is None and terms.postgres is None and terms.secret is None:
        return None

    def find_faults(value: str) -> Iterator[tuple[str, str]]:
        if (count := len(value.encode())) < _LEAST_SHARED_BYTES:
            problem = f"has {count} bytes, and must have {_LEAST_SHARED_BYTES} or more"
            yield problem, "make one with: openssl rand -base64 32"

    secret, hint = terms.secret, "write env:TANDEM_SHARED_SECRET, and put the secret into that variable"
    return replace(
        terms,
        replica=terms.replica or name_replica(),
        valkey=_read_store("valkey", terms.valkey, _VALKEY, _VALKEY_EXAMPLE, checker),
        postgres=_read_store("postgres", terms.postgres, _POSTGRES, _POSTGRES_EXAMPLE, checker),
        secret=_read("shared.secret", secret, checker, (_A_VARIABLE, hint), find_faults) if secret is not None else None,
    )


@cache
def name_replica() -> str:
    host = "".join(letter for letter in socket.gethostname() if letter.isascii() and (letter.isalnum() or letter in "-."))
    return f"{host[:_MAX_NAME] or 'router'}-{secrets.token_hex(3)}"


def _read_store(
    name: str, store: _Store | None, schemes: tuple[str, ...], example: str, checker: SecretChecker
) -> _Store | None:
    if store is None:
        return None
    known = f"{_A_VARIABLE}, since the address may hold a password"
    hint = f"write env:TANDEM_{name.upper()}_URL, and put the address into that variable"

    def find_faults(url: str) -> Iterator[tuple[str, str]]:
        if problem := _find_store_fault(url, schemes):
            yield problem, f"it looks like {example}"

    return replace(store, url=_read(f"shared.{name}.url", store.url, checker, (known, hint), find_faults))


def _find_store_fault(url: str, schemes: tuple[str, ...]) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme not in schemes:
            return f"does not begin with {schemes[0]}://"
        if parts.scheme == "unix":
            return "" if os.path.isabs(parts.path) else "has no absolute path"
        _ = parts.port if "," not in parts.netloc else None  # drivers accept several hosts with ports
        if schemes is _VALKEY and not (parts.path in ("", "/") or parts.path[1:].isdecimal()):
            return "must end with the number of a database, such as /0"
    except ValueError:
        return "is not a valid address"
    return ""


def read_trace_headers(source: str | None, checker: SecretChecker) -> Headers:
    """The variable holds key=value,key=value."""
    if source is None:
        return ()
    found: list[tuple[str, str]] = []
    hint = "put the headers into a variable, or into .env next to the config, and name that: env:OTEL_EXPORTER_OTLP_HEADERS"

    def find_faults(value: str) -> Iterator[tuple[str, str]]:
        for number, part in enumerate(value.split(","), 1):
            name, is_pair, text = part.partition("=")
            name, text = unquote(name.strip()).lower(), unquote(text.strip())
            if not part.strip():
                continue
            if not is_pair or not _HEADER.fullmatch(name) or not fits_header(text):
                right = "write key=value,key=value; a comma or a space in a value is written %2C or %20"
                yield f": entry {number} is not a header", right
            elif name in _OURS:
                yield f': "{name}" is set by Tandem itself', "leave it out"
            found.append((name, text))

    _read("traces.headers", Secret(source), checker, (f"{_A_VARIABLE}, as env:NAME", hint), find_faults)
    return tuple(found)


def _read(
    path: str,
    secret: Secret,
    checker: SecretChecker,
    if_written: tuple[str, str],
    find_faults: Callable[[str], Iterable[tuple[str, str]]] = lambda value: (),
) -> Secret:
    """`if_written` is the fault of a literal value; `find_faults` judges the variable's."""
    if not secret.is_reference:
        checker.faults.append(Fault(path, *if_written))
        return secret
    before = len(checker.faults)
    secret = checker.check(path, secret.source)
    if len(checker.faults) == before and secret.reveal():
        found = find_faults(secret.reveal())
        checker.faults.extend(Fault(path, f"{secret} {problem}".replace(" :", ":", 1), hint) for problem, hint in found)
    return secret
