"""A WebSocket client, as an SDK would be."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator

from websockets.asyncio.client import ClientConnection, connect

TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")


class Socket:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, text: object = "fix the typo", **more: object) -> None:
        await self.send({"type": "response.create", "model": "auto", "store": False, "input": text, **more})

    async def send(self, message: object) -> None:
        await self.connection.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def event(self) -> dict:
        return json.loads(await asyncio.wait_for(self.connection.recv(), 30))

    async def until(self, *kinds: str) -> list[dict]:
        events = [await self.event()]
        while events[-1]["type"] not in kinds:
            events.append(await self.event())
        return events

    async def answer(self) -> dict:
        """The last event of the next response."""
        return (await self.until(*TERMINAL))[-1]

    async def ask(self, text: object = "fix the typo", **more: object) -> dict:
        await self.say(text, **more)
        last = await self.answer()
        assert last["type"] == "response.completed", last
        return last["response"]


@contextlib.asynccontextmanager
async def open_socket(port: int, tls: ssl.SSLContext | None = None, **headers: str) -> AsyncIterator[Socket]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{'ws' if tls is None else 'wss'}://127.0.0.1:{port}/v1/responses"
    async with connect(url, additional_headers=named, proxy=None, ssl=tls) as connection:
        yield Socket(connection)
