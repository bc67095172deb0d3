"""What a Messages answer says of itself."""

from router.contract.words import Dialect
from router.dialects.answers import TELLING, read_stream_end
from router.dialects.sse import Tail


def test_messages_usage_joins_the_first_frame_and_the_last():
    usage = b'{"input_tokens":7,"output_tokens":1,"cache_read_input_tokens":90}'
    start = b'event: message_start\ndata: {"type":"message_start","message":{"usage":' + usage + b"}}\n\n"
    delta = b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":40}}\n\n'
    middle = b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n'
    tail = Tail(TELLING[Dialect.MESSAGES])
    for piece in (start, *[middle] * 50, delta, b'event: message_stop\ndata: {"type":"message_stop"}\n\n'):
        tail.add(piece)

    usage = read_stream_end(Dialect.MESSAGES, tail.frames()).usage

    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (97, 90, 40)
