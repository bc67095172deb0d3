"""Where routers are, whether they run, and where their ledgers are: a small file for each ledger in the user's state folder.

`tandem serve` writes it, so that `tandem log` and its like find the ledger from any folder. Nothing heavy is imported: a status
line asks all the time.
"""

import contextlib
import hashlib
import json
import os
import socket
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from router.config.folders import NoHome, state_folder

_FOLDER = "routers"
_MAX_RECORDS = 20
_LISTEN_SECONDS = 0.2


class Router(NamedTuple):
    """A router that runs, or ran: the newest start for its ledger."""

    url: str
    ledger: Path
    started_at: float

    def is_running(self) -> bool:
        """Whether somebody listens at its address."""
        return is_listening(self.url, _LISTEN_SECONDS)


def note_router(url: str, ledger: Path) -> None:
    """Remember a router that has started. One that cannot be remembered serves all the same."""
    with contextlib.suppress(NoHome, OSError):
        folder = state_folder() / _FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.blake2b(os.fsencode(ledger), digest_size=8).hexdigest()
        part = folder / f".{name}.{os.getpid()}"
        content = json.dumps({"url": url, "ledger": str(ledger), "started_at": time.time()})
        with open(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
        part.replace(folder / f"{name}.json")
        _forget_old(folder)


def known_routers() -> list[Router]:
    """Routers whose ledgers are still there, the newest start first."""
    found = []
    with contextlib.suppress(NoHome, OSError):
        for file in (state_folder() / _FOLDER).glob("*.json"):
            router = _read(file)
            if router is not None and router.ledger.is_file():
                found.append(router)
    return sorted(found, key=lambda router: router.started_at, reverse=True)


def find_router(url: str | None = None) -> Router | None:
    """The router at an address; without one, a router that runs, or else the one that started last; else None."""
    routers = known_routers()
    if url is not None:
        return next((router for router in routers if router.url == url), None)
    return next((router for router in routers if router.is_running()), routers[0] if routers else None)


def _read(file: Path) -> Router | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return Router(str(content["url"]), Path(content["ledger"]), float(content["started_at"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _forget_old(folder: Path) -> None:
    """Keep the newest records, and none of a ledger that is gone."""
    records = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    for number, file in enumerate(records):
        router = _read(file)
        if number >= _MAX_RECORDS or router is None or not router.ledger.exists():
            file.unlink(missing_ok=True)


def url_of(host: str, port: int, *, is_tls: bool = False) -> str:
    """The address of a router that listens there."""
    return f"{'https' if is_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def is_listening(url: str, within_seconds: float = 2.0) -> bool:
    """Whether something accepts connections at an address."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), within_seconds):
            return True
    except (OSError, ValueError):
        return False


def is_tandem(url: str, within_seconds: float = 2.0) -> bool:
    """Whether it is a Tandem router that answers at an address. Nothing secret is sent, so any certificate will do."""
    import ssl
    import urllib.error
    import urllib.request  # it takes longer than all the rest

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(f"{url}/", timeout=within_seconds) as answer:
            return answer.headers.get("x-tandem-request-id") is not None
    except urllib.error.HTTPError as error:
        return error.headers.get("x-tandem-request-id") is not None
    except (OSError, ValueError):
        return False
