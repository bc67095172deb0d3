"""Responses that tests keep."""

from router.contract.request import RequestView
from router.contract.stores import StoredResponse
from router.contract.words import Dialect, Tier
from router.responses.keep import record_response
from router.responses.resume import restore_history
from router.stores.memory.responses import MemoryResponses
from tests.tools.exchanges import make_exchange
from tests.tools.values import make_target, make_view

REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": "{}"}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)


def ask(given: object = "hello", **more: object):
    return make_view({"input": given, **more}, Dialect.RESPONSES)


def kept(*output: dict, given: object = "hello", view=None, **more: object) -> StoredResponse:
    return record_response(view or ask(given), SPARK, 1.0, {"id": "resp_1", "output": list(output), **more})


def holding(*responses: StoredResponse) -> MemoryResponses:
    store = MemoryResponses(clock=lambda: 2.0)
    for response in responses:
        store.keep(response, for_long=False)
    return store


async def restore(view: RequestView, store=None, *targets, socket_store=None) -> RequestView:
    """The request with what it leaves out."""
    exchange = make_exchange(dialect=view.dialect, responses=socket_store)
    return await restore_history(exchange, view, store or holding(), {target.name: target for target in targets})
