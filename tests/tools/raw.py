"""A caller over plain sockets, on the hot path or on a connection that was handed over."""

import asyncio
import ssl

from tests.tools.http import Reply, read_reply, request_bytes


class Caller:
    """`by_shim` asks for something else first, so that uvicorn holds the connection."""

    def __init__(
        self, port: int, *, by_shim: bool = False, holds_bytes: int = 1 << 24, tls: ssl.SSLContext | None = None
    ) -> None:
        self._port, self._by_shim, self._holds_bytes, self._tls = port, by_shim, holds_bytes, tls
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> "Caller":
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=self._holds_bytes, ssl=self._tls
        )
        if self._by_shim:
            self.writer.write(request_bytes("/healthz"))
            assert (await read_reply(self.reader)).status == 200
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, seconds: float = 30.0) -> Reply:
        return await asyncio.wait_for(read_reply(self.reader), seconds)

    async def closed(self, seconds: float = 30.0) -> bytes:
        try:
            return await asyncio.wait_for(self.reader.read(), seconds)
        except ConnectionError:
            return b""
