"""Memory that is given back."""

import asyncio
import threading
import weakref

from router.loop import memory
from router.loop.memory import FreeMemory, give_back
from tests.tools.loop_clock import jumping_clock


@jumping_clock
async def test_however_many_ask_it_is_done_once_and_in_a_thread_and_in_plain_mode_never(monkeypatch):
    done: list[str] = []
    monkeypatch.setattr(memory, "give_back", lambda: done.append(threading.current_thread().name))
    loop, free, never = asyncio.get_running_loop(), FreeMemory(), FreeMemory(plain=True)
    for _ in range(200):
        free.give_back_later(loop)
        never.give_back_later(loop)
    await asyncio.sleep(3)
    free.give_back_later(loop)
    await asyncio.sleep(3)
    await loop.shutdown_default_executor()

    assert len(done) == 2
    assert threading.current_thread().name not in done


class Held:
    """Something that holds itself, as a connection and its transport hold each other."""

    def __init__(self) -> None:
        self.itself = self


def test_what_holds_itself_is_given_back_too():
    held = weakref.ref(Held())
    give_back()

    assert held() is None
