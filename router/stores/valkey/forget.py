"""Deletes everything a shared Valkey or Redis server keeps of one caller, while routers run.

Session keys begin with a hash of their caller. Response keys hash caller and id, and the value holds the id, so ownership can
be checked. Answers under an `Idempotency-Key` cannot be attributed.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

from router.contract.caller import Caller, record_prefix
from router.contract.shared import ValkeyTerms
from router.stores.valkey.link import Link, Script
from router.stores.valkey.responses import ValkeyResponses

_SECONDS = 60.0
"""The command waits."""
_PAGE = 1_000
_IDS = Script("""
    local ids = {}
    for i, key in ipairs(KEYS) do
        local head = redis.call('GETRANGE', key, 0, 1023)
        local is_record = string.sub(head, 1, 1) == 'R'
        local is_read, _, id = pcall(cmsgpack.unpack_one, head, 2) -- after the letter and the length of the record
        if is_record and not is_read then -- a long id
            is_read, _, id = pcall(cmsgpack.unpack_one, redis.call('GET', key), 2)
        end
        ids[i] = is_record and is_read and type(id) == 'string' and id or ''
    end
    return ids
""")


def count_kept(terms: ValkeyTerms, caller: Caller) -> Mapping[str, int]:
    """Keys by kind. Raises `StoreUnusable`."""
    return asyncio.run(_work_through(terms, caller, deletes=False))


def forget_caller(terms: ValkeyTerms, caller: Caller) -> Mapping[str, int]:
    """Delete all of it, and make routers delete their copies of responses. Raises `StoreUnusable`."""
    return asyncio.run(_work_through(terms, caller, deletes=True))


async def _work_through(terms: ValkeyTerms, caller: Caller, *, deletes: bool) -> dict[str, int]:
    link = Link(terms.waiting(_SECONDS))
    responses, _ = ValkeyResponses(link), link.register(_IDS)
    rows = {"sessions": 0, "responses": 0}
    try:
        await link.connect()
        async for keys in _find_sessions(link, caller):
            rows["sessions"] += len(keys)
            if deletes:
                await link.ask("DEL", *keys)
        async for ids in _find_responses(link, responses, caller):
            rows["responses"] += len(ids)
            for response_id in ids if deletes else ():
                await responses.delete(response_id, caller)
    finally:
        await link.close()
    return rows


async def _find_sessions(link: Link, caller: Caller) -> AsyncIterator[list[str]]:
    prefix, all_of = record_prefix(caller), link.key("s", "")
    async for keys in _scan(link, f"{all_of}{prefix}*"):
        # Keys of `LOCAL` have no prefix and no dot, unlike those of others.
        if found := [key for key in keys if prefix or "." not in key.removeprefix(all_of)]:
            yield found


async def _find_responses(link: Link, responses: ValkeyResponses, caller: Caller) -> AsyncIterator[list[str]]:
    all_of = link.key("r", "")
    async for keys in _scan(link, f"{all_of}*"):
        records = [key for key in keys if ":" not in key.removeprefix(all_of)]
        ids = [found.decode("utf-8", "replace") for found in await link.run(_IDS, records)]
        yield [name for key, name in zip(records, ids, strict=True) if key == responses.key_of(name, caller)]


async def _scan(link: Link, pattern: str) -> AsyncIterator[list[str]]:
    """A key that exists throughout is found, perhaps twice."""
    cursor = b"0"
    while True:
        cursor, found = await link.ask("SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE)
        if found:
            yield [key.decode("utf-8", "replace") for key in set(found)]
        if cursor == b"0":
            return
