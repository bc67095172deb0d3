"""A sink that keeps what it is told, in order, and knows the order in which it may be told."""

import asyncio


class RecordingSink:
    """Every call of a sink, as it came."""

    def __init__(self) -> None:
        self.told: list[tuple] = []
        self.facts: list = []
        self.flow = None
        self.status, self.headers, self.body, self.error = None, (), b"", None
        self.first, self.over = asyncio.Event(), asyncio.Event()

    def feed_from(self, flow) -> None:
        self.flow = flow
        self.told.append(("feed_from",))

    def start(self, status, headers) -> None:
        self.status, self.headers = status, headers
        self.told.append(("start", status))

    def write(self, data) -> None:
        self.body += data
        self.told.append(("write", data))
        self.first.set()

    def tell(self, fact) -> None:
        self.facts.append(fact)
        self.told.append(("tell", fact))

    def end(self) -> None:
        self.told.append(("end",))
        self.over.set()

    def fail(self, error) -> None:
        self.error = error
        self.told.append(("fail", error))
        self.over.set()

    @property
    def words(self) -> list[str]:
        """What it was told, without repetitions of `write`."""
        names = [name for name, *_ in self.told]
        return [name for index, name in enumerate(names) if name != "write" or names[index - 1] != "write"]

    async def finished(self, within_seconds: float = 30.0) -> "RecordingSink":
        await asyncio.wait_for(self.over.wait(), within_seconds)
        return self
