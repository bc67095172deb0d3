"""Known routers: a file for each in the user's state folder, with its address and ledger.

`tandem serve` writes it, so that other commands find both from any folder. If callers need keys, it holds one for the user's
own commands, valid until the router ends. Imports are light: status lines run often.
"""

import base64
import contextlib
import hashlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from router.cli import installed_version
from router.config.folders import NoHome, state_folder
from router.stores.folders import make_folders

if TYPE_CHECKING:
    from router.config.load import LoadedConfig

_FOLDER = "routers"
_MAX_RECORDS = 20
_LISTEN_SECONDS = 0.2
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  nothing is bound here
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class Router(NamedTuple):
    """A router that runs or ran: the newest start for its ledger."""

    url: str
    ledger: Path | None
    """None without a record."""
    started_at: float
    config: Path | None = None
    """None for the built-in default."""
    key: str = ""
    """For its user's commands, if callers need keys."""
    certificate: str = ""

    pid: int = 0
    """Its process. 0 once it has ended."""
    version: str = ""
    fingerprint: str = ""
    """Of the config in use."""
    shared: tuple[str, ...] = ()
    """Names of settings."""
    is_service: bool = False
    """Started by a service manager, which may restart it."""

    def is_running(self) -> bool:
        # Where a service manager listens, connecting would start the router.
        return (not self.is_service or is_alive(self.pid)) and is_listening(self.url, _LISTEN_SECONDS)

    def __repr__(self) -> str:
        return f"Router({self.url!r})"


def record_of(loaded: "LoadedConfig", config: Path | None, url: str, key: str, *, has_ledger: bool) -> Router:
    return Router(
        url,
        loaded.ledger_path.absolute() if has_ledger and loaded.ledger_path is not None else None,
        time.time(),
        config,
        key,
        pid=os.getpid(),
        version=installed_version(),
        is_service=_is_service(),
        **_facts_of(loaded),
    )


def _is_service() -> bool:
    """Whether systemd, launchd or a container started this process."""
    by_launchd = sys.platform == "darwin" and os.getppid() == 1
    named = (os.environ.get("SYSTEMD_EXEC_PID"), os.environ.get("LISTEN_PID"))
    return by_launchd or os.getpid() == 1 or str(os.getpid()) in named


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid > 0


def note_reload(router: Router, taken: "LoadedConfig") -> None:
    note_router(router._replace(**_facts_of(taken)))


def _facts_of(loaded: "LoadedConfig") -> dict[str, Any]:
    shared = loaded.config.shared
    return {
        "certificate": digest_certificate(loaded.tls_paths.cert) if loaded.tls_paths is not None else "",
        "fingerprint": loaded.fingerprint,
        "shared": tuple(f"shared.{name}" for name in ("valkey", "postgres") if getattr(shared, name, None) is not None),
    }


def note_router(router: Router) -> None:
    """Failures do not stop the router."""
    with contextlib.suppress(NoHome, OSError):
        folder = state_folder() / _FOLDER
        make_folders(folder)
        _write(router, folder)
        _forget_old(folder)


def leave_router(router: Router) -> None:
    """Drop the key and the process, or the record if it has no ledger, unless another router took the ledger or address."""
    with contextlib.suppress(NoHome, OSError):
        folder = state_folder() / _FOLDER
        known = _read(_file_of(router, folder))
        if known is None or known.started_at != router.started_at:
            return
        if router.ledger is None:
            _file_of(router, folder).unlink(missing_ok=True)
        else:
            _write(known._replace(key="", pid=0), folder)


def known_routers() -> list[Router]:
    """Newest start first."""
    return [router for router in all_routers() if router.ledger is not None and router.ledger.is_file()]


def all_routers() -> list[Router]:
    """Newest start first."""
    found = []
    with contextlib.suppress(NoHome, OSError):
        found = [router for file in (state_folder() / _FOLDER).glob("*.json") if (router := _read(file)) is not None]
    return sorted(found, key=lambda router: router.started_at, reverse=True)


def list_running() -> list[Router]:
    """Newest start first."""
    return [router for router in all_routers() if router.is_running()]


def find_router(url: str | None = None) -> Router | None:
    """By address; without one, a running router, else the one started last."""
    routers = known_routers()
    if url is not None:
        return next((router for router in routers if router.url == url), None)
    return next((router for router in routers if router.is_running()), routers[0] if routers else None)


def find_at(url: str) -> Router | None:
    """With a ledger or without."""
    wanted = _normal(url)
    return next((router for router in all_routers() if _normal(router.url) == wanted), None)


def _normal(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").replace("//localhost:", "//127.0.0.1:", 1)


def _file_of(router: Router, folder: Path) -> Path:
    subject = os.fsencode(router.ledger) if router.ledger is not None else router.url.encode()
    return folder / f"{hashlib.blake2b(subject, digest_size=8).hexdigest()}.json"


def _write(router: Router, folder: Path) -> None:
    file = _file_of(router, folder)
    part = folder / f".{file.stem}.{os.getpid()}"
    paths = {"ledger": router.ledger, "config": router.config}
    content = router._asdict() | {name: str(path) if path is not None else None for name, path in paths.items()}
    with open(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as opened:
        json.dump(content, opened)
    part.replace(file)


def _read(file: Path) -> Router | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        texts = {name: str(content.get(name, "")) for name in ("url", "key", "certificate", "version", "fingerprint")}
        numbers = {"pid": int(content.get("pid", 0))}
        known: dict[str, Any] = {**texts, **numbers, "shared": tuple(map(str, content.get("shared", ())))}
        known["is_service"] = bool(content.get("is_service"))
        for name in ("ledger", "config"):
            known[name] = Path(content[name]) if content.get(name) else None
        return Router(**known, started_at=float(content["started_at"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _forget_old(folder: Path) -> None:
    """Keep the newest, without ended routers whose ledger is gone."""
    records = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    for number, file in enumerate(records):
        router = _read(file) if number < _MAX_RECORDS else None
        if router is None or not ((router.ledger is not None and router.ledger.exists()) or router.is_running()):
            file.unlink(missing_ok=True)


def url_of(host: str, port: int, *, is_tls: bool = False) -> str:
    host = ANYWHERE.get(host, host)
    return f"{'https' if is_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def digest_certificate(path: Path) -> str:
    """Of the first certificate in a PEM file; empty without one."""
    try:
        _, _, rest = path.read_text(encoding="ascii", errors="replace").partition(_BEGIN)
        text, end, _ = rest.partition(_END)
        return hashlib.sha256(base64.b64decode("".join(text.split()), validate=True)).hexdigest() if end else ""
    except (OSError, ValueError):
        return ""


def is_listening(url: str, within_seconds: float = 2.0) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), within_seconds):
            return True
    except (OSError, ValueError):
        return False


def is_tandem(url: str, within_seconds: float = 2.0) -> bool:
    """Any certificate will do, since nothing secret is sent."""
    import ssl
    import urllib.error
    import urllib.request  # takes longer than all the rest

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(f"{url}/", timeout=within_seconds) as answer:
            return answer.headers.get("x-tandem-request-id") is not None
    except urllib.error.HTTPError as error:
        return error.headers.get("x-tandem-request-id") is not None
    except (OSError, ValueError):
        return False
