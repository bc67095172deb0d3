"""Tasks of a test."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


def later(work: Awaitable[_T]) -> "asyncio.Future[_T]":
    """Begin work whose task the test itself holds and awaits: a product's tasks are held by `spawn`."""
    return asyncio.ensure_future(work)  # noqa: TID251  whoever calls this holds it
