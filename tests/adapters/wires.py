"""An upstream for adapters alone: nothing is sent."""

from msgspec.structs import replace


class Wire:
    """An `Upstream` that keeps what it is asked to prepare, and then to send."""

    def __init__(self):
        self.prepared = []
        self.ahead = []

    def connect_ahead(self, request):
        self.ahead.append(request)

    def open(self, request, sink):
        self.sent = request

    def prepare(self, request):
        self.prepared.append(request)
        return Prepared(self, request)


class Prepared:
    def __init__(self, wire, request):
        self.wire, self.request = wire, request

    def open(self, body, sink, headers=(), session=""):
        self.wire.sent = replace(self.request, body=body, headers=self.request.headers + headers)
