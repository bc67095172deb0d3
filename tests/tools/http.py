"""A small HTTP client over plain sockets."""

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Reply:
    """`is_whole` is false if the connection ended before the body."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool = True

    @property
    def json(self) -> dict:
        return json.loads(self.body)


def request_bytes(path: str, body: object = None, headers: dict[str, str] | None = None, method: str | None = None) -> bytes:
    raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method or ('POST' if body is not None else 'GET')} {path} HTTP/1.1", "host: 127.0.0.1"]
    given = {"content-type": "application/json", **(headers or {})} if body is not None else (headers or {})
    lines += [f"{name}: {value}" for name, value in given.items()]
    if body is not None and "content-length" not in given and "transfer-encoding" not in given:
        lines.append(f"content-length: {len(raw)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + raw


async def read_reply(
    reader: asyncio.StreamReader, *, is_head: bool = False, on_head: Callable[[], None] = lambda: None
) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    on_head()
    status = int(head[0].split(" ")[1])
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        if name:
            headers[name.lower()] = value.strip()
    body, is_whole = b"", True
    try:
        if is_head or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
                body += await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readexactly(2)
        elif "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        else:
            body = await reader.read()
    except asyncio.IncompleteReadError as error:
        body, is_whole = body + error.partial, False
    except ConnectionError:
        is_whole = False
    return Reply(status, headers, body, is_whole)


async def call(
    port: int,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
    tls: ssl.SSLContext | None = None,
    on_head: Callable[[], None] = lambda: None,
) -> Reply:
    """Return the whole answer. `on_head` is called after its headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26, ssl=tls)
    try:
        writer.write(request_bytes(path, body, headers, method))
        return await asyncio.wait_for(read_reply(reader, is_head=method == "HEAD", on_head=on_head), 60)
    finally:
        writer.close()


LONG = "Implement a full parser with an extensive test suite, step by step"


def chat(text: str = "fix the typo in this line: retrun x", **more: object) -> dict:
    return {"model": "auto", "messages": [{"role": "user", "content": text}], **more}
