"""The router's certificate and key (`server.tls`): whether they are usable, until when, for which names."""

import hashlib
import re
import ssl
import time
from _ssl import _test_decode_cert  # type: ignore[attr-defined]  # not in the stubs
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from router.config.faults import Fault
from router.config.key_file import may_others_read
from router.config.models import ServerTlsSettings
from router.config.reading import expand

_CERT, _KEY = "server.tls.cert", "server.tls.key"
_FIRST = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_DAY_SECONDS = 86_400
_SOON_DAYS = 14


class TlsPaths(NamedTuple):
    cert: Path
    key: Path


class Certificate(NamedTuple):
    names: tuple[str, ...]
    expires_at: float
    """In seconds since 1970."""
    digest: bytes = b""
    """Of its file, to tell a renewed one."""
    is_authority: bool = False
    """Made to sign others, as `openssl req -x509` makes them: clients built with rustls refuse it as a server's own."""

    def is_expired(self, now: float) -> bool:
        return now >= self.expires_at

    def expires_soon(self, now: float) -> bool:
        """Within two weeks, or already expired."""
        return now >= self.expires_at - _SOON_DAYS * _DAY_SECONDS

    def describe(self, now: float) -> str:
        names = ", ".join(self.names) or "no host name"
        day, days = time.strftime("%Y-%m-%d", time.gmtime(self.expires_at)), int((self.expires_at - now) / _DAY_SECONDS)
        if self.is_expired(now):
            return f"for {names}; expired on {day}"
        return f"for {names}; expires on {day}, {f'in {days} days' if days > 1 else 'within two days'}"


class CertificateUnusable(Exception):
    """The files cannot be used; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def paths_of(settings: ServerTlsSettings, folder: Path) -> TlsPaths:
    return TlsPaths(folder / expand(settings.cert), folder / expand(settings.key))


def read_certificate(paths: TlsPaths) -> Certificate:
    """Ignores issuers. Raises `CertificateUnusable`."""
    try:
        # The standard library has no public way to read a certificate that was not presented.
        found: Mapping[str, Any] = _test_decode_cert(str(paths.cert))
        content = paths.cert.read_bytes()
        digest = hashlib.blake2b(content, digest_size=16).digest()
        expires_at = float(ssl.cert_time_to_seconds(found["notAfter"]))
        return Certificate(_names_in(found), expires_at, digest, _is_authority(content))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CertificateUnusable(_explain_unread(paths.cert, _CERT, "CERTIFICATE")) from error


def _is_authority(content: bytes) -> bool:
    """Whether the first certificate of a file is one."""
    if (found := _FIRST.search(content)) is None:
        return False
    store = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    store.load_verify_locations(cadata=found[0].decode("ascii"))
    return store.cert_store_stats()["x509_ca"] > 0


def load_pair(context: ssl.SSLContext, paths: TlsPaths) -> None:
    """A failure may leave the context unusable. Raises `CertificateUnusable`."""
    try:
        context.load_cert_chain(paths.cert, paths.key, password=_refuse_password)
    except _Encrypted as error:
        hint = f"openssl pkey -in {paths.key} -out plain.pem writes it without one; chmod 600 plain.pem"
        raise CertificateUnusable(Fault(_KEY, "is encrypted with a password, which is not supported", hint)) from error
    except OSError as error:
        raise CertificateUnusable(_explain(error, paths)) from error


def check_pair(paths: TlsPaths) -> Certificate:
    """The certificate, if its key fits. Raises `CertificateUnusable`."""
    found = read_certificate(paths)
    load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), paths)
    return found


def warn_of_key(paths: TlsPaths | None) -> list[str]:
    if paths is None or not may_others_read(paths.key):
        return []
    return [f"{_KEY}: other users of this machine may read {paths.key}; chmod 600 {paths.key}"]


class _Encrypted(Exception):
    pass


def _refuse_password() -> str:
    """Without this, the library would ask on the terminal, and wait."""
    raise _Encrypted


def _names_in(found: Mapping[str, Any]) -> tuple[str, ...]:
    """The alternative names, which clients check; else the common name, for display."""
    if names := tuple(name for kind, name in found.get("subjectAltName", ()) if kind in ("DNS", "IP Address")):
        return names
    return tuple(value for part in found.get("subject", ()) for kind, value in part if kind == "commonName")


def _explain(error: OSError, paths: TlsPaths) -> Fault:
    if isinstance(error, ssl.SSLError) and error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
        return Fault(
            _KEY, f"is not the key of the certificate in {paths.cert}", "name the key that the certificate was made with"
        )
    if isinstance(error, ssl.SSLError) and error.reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
        return Fault(_CERT, "its key or its signature is too weak for clients to accept", "make one with RSA 2048 or EC P-256")
    try:
        read_certificate(paths)
    except CertificateUnusable as unusable:
        return unusable.fault
    return _explain_unread(paths.key, _KEY, "PRIVATE KEY")


def _explain_unread(path: Path, setting: str, kind: str) -> Fault:
    try:
        path.read_bytes()
    except FileNotFoundError:
        return Fault(setting, f"no such file: {path}", "paths are relative to the config file")
    except OSError as error:
        return Fault(
            setting, f"{path} cannot be read ({error.strerror})", "the user that runs the router must be able to read it"
        )
    return Fault(setting, f"{path} is not a PEM file with a {kind.lower()}", f"it should have a line -----BEGIN {kind}-----")
