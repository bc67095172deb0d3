"""The live page's files, read on each request; `/` is the page for browsers, else a line of text."""

import asyncio
import gzip
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from router.contract.errors import NotFound
from router.edge.control.panel import Answer, Asked, Page
from router.edge.routes import OPEN_FOLDER
from router.house import House
from router.telemetry import events

STATIC = Path(__file__).with_name("static")
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Served suffixes; licences and notes are not."""
_PROBED = ("GET", "HEAD")
_WELCOME = b'Tandem is running. POST to /v1/chat/completions, /v1/responses or /v1/messages with model "auto".\n'
_GUARDS = {
    # No foreign content, no inline code, no framing.
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Browsers revalidate each file, so that modules of two releases do not mix.
    "cache-control": "no-cache",
}
_BY_ENCODING = {"vary": "accept-encoding"}
_BY_ACCEPT = {"vary": "accept, accept-encoding"}


class Site:
    def __init__(self, house: House, folder: Path = STATIC) -> None:
        self._house, self._folder = house, folder
        self.pages = (Page("/", self._welcome, _PROBED), Page(OPEN_FOLDER + "{name:path}", self._asset, _PROBED))

    async def _welcome(self, asked: Asked) -> Answer:
        if not self._house.plan.shows_page or not _is_browser(asked.headers):
            return Answer(_WELCOME, "text/plain", headers=_BY_ACCEPT)
        return await self._send("index.html", asked, _BY_ACCEPT)

    async def _asset(self, asked: Asked) -> Answer:
        if not self._house.plan.shows_page:
            raise NotFound("the page is switched off (page: off in the config)")
        return await self._send(asked.path["name"], asked)

    async def _send(self, name: str, asked: Asked, more: Mapping[str, str] = _BY_ENCODING) -> Answer:
        """One file, or 304 if the browser has it. Raises `NotFound`."""
        packs = "gzip" in asked.headers.get("accept-encoding", "")
        body, tag = await asyncio.to_thread(self._read, name, packs=packs)
        headers = {**_GUARDS, **more, "etag": tag, **({"content-encoding": "gzip"} if packs else {})}
        if tag in asked.headers.get("if-none-match", ""):
            return Answer(b"", status=304, headers=headers)
        return Answer(body, MEDIA_TYPES[Path(name).suffix], headers=headers)

    def _read(self, name: str, *, packs: bool) -> tuple[bytes, str]:
        """A file, packed or not, and its tag. Only names in the folder are found, so no path leads out."""
        files = {path.relative_to(self._folder).as_posix(): path for path in self._folder.rglob("*") if path.is_file()}
        if name not in files or Path(name).suffix not in MEDIA_TYPES:
            events.page_file_missing(name=name)
            raise NotFound(f"the page has no file {name[:100]}. If the page stays empty, install Tandem again")
        body = files[name].read_bytes()
        tag = f'"{blake2b(body, digest_size=12).hexdigest()}{"-gzip" if packs else ""}"'
        return gzip.compress(body, mtime=0) if packs else body, tag


def _is_browser(headers: Mapping[str, str]) -> bool:
    return "text/html" in headers.get("accept", "")
