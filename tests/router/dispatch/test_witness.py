"""The witness sees what the caller sees, and speaks before the last bytes leave."""

import json

from router.dispatch.witness import Witness

RESPONSE = {"id": "resp_1", "output": [{"type": "message"}]}
LAST = f"event: response.completed\ndata: {json.dumps({'type': 'response.completed', 'response': RESPONSE})}\n\n".encode()
DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"%s"}\n\n'


class Log:
    """A caller's end and a listener in one, so that their order can be seen."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def feed_from(self, flow) -> None: ...
    def start(self, status, headers) -> None: ...

    def write(self, data: bytes) -> None:
        self.seen.append(data)

    def end(self) -> None:
        self.seen.append("end")

    def fail(self, error) -> None:
        self.seen.append("fail")


def watch(*, is_streaming: bool = True) -> tuple[Witness, list[object]]:
    log = Log()
    return Witness(log, is_streaming=is_streaming, tell=log.seen.append), log.seen


def test_a_stream_is_told_before_the_piece_that_ends_it_leaves():
    witness, seen = watch()

    for piece in (DELTA % b"a", LAST[:30], LAST[30:]):
        witness.write(piece)
    witness.end()

    assert seen == [DELTA % b"a", LAST[:30], RESPONSE, LAST[30:], "end"]


def test_an_event_whose_name_is_cut_in_two_is_told_at_the_end():
    witness, seen = watch()

    for piece in (LAST[:16], LAST[16:].replace(b'"response.completed"', b'"response.\\u0063ompleted"')):
        witness.write(piece)
    witness.end()

    assert seen[-2:] == [RESPONSE, "end"]


def test_a_text_that_names_the_event_is_not_taken_for_it():
    witness, seen = watch()

    witness.write(DELTA % b"response.completed")
    witness.write(LAST)

    assert seen == [DELTA % b"response.completed", RESPONSE, LAST]


def test_a_stream_that_fails_is_not_told():
    witness, seen = watch()

    witness.write(DELTA % b"a")
    witness.fail(RuntimeError())

    assert seen == [DELTA % b"a", "fail"]


def test_a_whole_answer_is_told_once_it_is_whole():
    witness, seen = watch(is_streaming=False)
    raw = json.dumps(RESPONSE).encode()

    witness.write(raw[:10])
    witness.write(raw[10:])
    witness.end()

    assert seen == [raw[:10], raw[10:], RESPONSE, "end"]
