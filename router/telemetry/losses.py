"""How many requests' traces were lost: too many waited, or the collector did not take them."""

import threading


class Losses:
    """A count to which the event loop and the thread that sends both add. It goes on over reloads."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, requests: int) -> None:
        with self._lock:
            self.count += requests
