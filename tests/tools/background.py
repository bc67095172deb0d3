"""Background jobs as a caller sees them."""

import asyncio
import json

from tests.tools.http import Reply, call, request_bytes
from tests.tools.running import Running
from tests.tools.speech import Speech, write_stream
from tests.tools.upstream import CHAT_STREAM_HEAD, Script, Seen, Wire

FINAL = ("completed", "incomplete", "failed", "cancelled")
SPEECH = Speech("The quick brown fox jumps over the lazy dog.", thinking="A pangram, then.")


def ask(text: str = "plan the migration", **more: object) -> dict:
    return {"model": "auto", "input": text, "background": True, **more}


async def begin(tandem: Running, headers: dict[str, str] | None = None, **more: object) -> str:
    reply = await call(tandem.port, "/v1/responses", ask(**more), headers)
    assert (reply.status, reply.json["status"]) == (200, "queued"), reply
    return reply.json["id"]


async def poll(tandem: Running, job_id: str, headers: dict[str, str] | None = None) -> dict:
    store = tandem.built.jobs.store
    watch = store.watch(job_id)
    while (await store.find(job_id, None)).state not in FINAL:
        await watch.wait(30)
    watch.close()
    reply = await call(tandem.port, f"/v1/responses/{job_id}", headers=headers)
    assert reply.status == 200, reply
    return reply.json


async def read_log(tandem: Running, job_id: str, after: int | None = None, headers: dict[str, str] | None = None) -> Reply:
    start = "" if after is None else f"&starting_after={after}"
    return await call(tandem.port, f"/v1/responses/{job_id}?stream=true{start}", headers=headers)


async def read_some(tandem: Running, job_id: str, after: int, size: int) -> bytes:
    """Some bytes of a job's stream, without its head; then the caller hangs up."""
    start = f"&starting_after={after}" if after >= 0 else ""
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes(f"/v1/responses/{job_id}?stream=true{start}"))
    await reader.readuntil(b"\r\n\r\n")
    body = b""
    while len(body) < size and (line := await reader.readline()) not in (b"0\r\n", b""):
        body += (await reader.readexactly(int(line, 16) + 2))[:-2]
    writer.close()
    return body[:size]


def events_in(body: bytes) -> list[dict]:
    """Complete events only, without comments."""
    frames = body.decode().split("\n\n")[:-1]
    lines = [line for frame in frames for line in frame.split("\n") if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def speak_in_steps(dialect: str, speech: Speech, steps: asyncio.Semaphore) -> Script:
    """A script that streams one frame per step."""

    async def script(wire: Wire, seen: Seen) -> None:
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream(dialect, speech):
            await steps.acquire()
            await wire.chunk(frame)
        await wire.end_chunks()

    return script
