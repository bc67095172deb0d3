"""An answer with everything in it, as one dialect's composer writes it."""

from collections.abc import Callable

from router.contract.usage import Usage
from router.dialects.composer import Answer, ComposedCall, Composer, Finish, Shape, write_call
from router.dialects.sse import split_frames

USAGE = Usage(11, 5, cached_tokens=2)
ANSWER = Answer("x", "m", 1, shapes={"patch": Shape("patch", is_custom=True), "ns__f": Shape("f", "ns")})


def written(make: Callable[[Answer], Composer], finish: Finish = Finish.STOP, answer: Answer = ANSWER):
    """Its events, and the answer in one piece."""
    composer = make(answer)
    pieces = [composer.open(), composer.reasoning("hm"), composer.reasoning("m"), composer.envelope("wrapped")]
    pieces += [composer.text("a"), composer.text("b")]
    for call in (("call_1", "ls", '{"path": "."}'), ("call_2", "patch", '{"input": "*** Begin"}'), ("call_3", "ns__f", "{}")):
        pieces.append(write_call(composer, ComposedCall(*call)))
    pieces.append(composer.close(finish, USAGE))
    events = [frame.json() for frame in split_frames(b"".join(pieces)) if frame.data != b"[DONE]"]
    return events, composer.whole()
