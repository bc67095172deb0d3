"""Routers that hear each other inside one test, without a server."""


class Channel:
    """What all of them are connected to."""

    def __init__(self):
        self.members = []

    def join(self, name):
        self.members.append(member := Member(self, name))
        return member


class Member:
    """The pulse of one router. A test says when its heart beats."""

    def __init__(self, channel, name):
        self._channel, self.replica, self.is_up = channel, name, True
        self._takers, self._beats = {}, []
        self.told = []

    @property
    def routers(self):
        return len(self._channel.members)

    def tell(self, fact):
        self.told.append(fact)
        for other in self._channel.members:
            if other is not self and self.is_up and other.is_up:
                for take in other._takers.get(type(fact), ()):
                    take(f"{self.replica}/1", fact)

    def hear(self, kind, take):
        self._takers.setdefault(kind, []).append(take)

    def on_beat(self, call):
        self._beats.append(call)

    def beat(self):
        for call in self._beats:
            call()
