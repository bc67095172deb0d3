"""An upstream for adapters alone: nothing is sent."""

from msgspec.structs import replace


class Wire:
    """An `Upstream` that keeps what it is asked to prepare, and then to send."""

    def __init__(self):
        self.prepared = []

    def prepare(self, request):
        self.prepared.append(request)
        return Prepared(self, request)


class Prepared:
    def __init__(self, wire, request):
        self.wire, self.request = wire, request

    def open(self, body, sink, headers=()):
        self.wire.sent = replace(self.request, body=body, headers=self.request.headers + headers)
