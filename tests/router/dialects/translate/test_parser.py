"""How hosts word their failures, wherever the words stand."""

import json

import pytest

from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, answer_to, chunk, heard


def test_a_failure_for_length_inside_a_stream_has_the_code_on_which_clients_compact():
    error = {"type": "invalid_request_error", "message": "prompt is too long: 5000 tokens > 3000 maximum"}

    told = heard(RESPONSES, MESSAGES, {"type": "message_start", "message": {}}, {"type": "error", "error": error})
    words = {"error": {"message": "This model's maximum context length is 8192 tokens, you sent 9000"}}
    claude = heard(MESSAGES, CHAT, chunk({"content": ""}), words)

    assert told[-1]["response"]["error"]["code"] == "context_length_exceeded"
    assert claude[-1]["error"]["message"].startswith("prompt is too long: 9000 tokens > 8192 maximum")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"detail":[{"loc":["body","tools"],"msg":"extra fields"}]}', "extra fields"),
        (b'{"object":"error","message":{"detail":[{"msg":"bad"}]},"type":"invalid"}', "bad"),
        (b'{"error":null,"message":"m"}', "m"),
        (b'{"error":"no such thing"}', "no such thing"),
        (b'{"odd":1}', '{"odd":1}'),
        (b"", "the target reported an error"),
    ],
)
def test_a_refusal_is_told_in_the_hosts_words_wherever_they_stand(raw, words):
    assert words in json.loads(answer_to(MESSAGES, CHAT).refusal(400, raw))["error"]["message"]


LLAMA = {
    "code": 400,
    "message": "the request exceeds the available context size, try increasing it",
    "type": "exceed_context_size_error",
}
OPENAI_WORDS = "maximum context length is 8192 tokens. However, you requested 10000 tokens (9000 in the messages, 1000 more)."
GEMINI_WORDS = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
CLAUDE_WORDS = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length"


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (LLAMA, "prompt is too long: the target's window is smaller. the request exceeds"),
        (LLAMA | {"n_prompt_tokens": 10_039, "n_ctx": 8_192}, "prompt is too long: 10039 tokens > 8192 maximum. the request"),
        (LLAMA | {"n_ctx": 8_192}, "prompt is too long: the target's window is smaller. the request exceeds"),
        ({"message": OPENAI_WORDS}, "prompt is too long: 10000 tokens > 8192 maximum. "),
        ({"message": GEMINI_WORDS, "status": "INVALID_ARGUMENT"}, "prompt is too long: 1200000 tokens > 1048576 maximum. "),
        ({"message": CLAUDE_WORDS}, "prompt is too long: "),
    ],
)
def test_a_refusal_for_length_is_known_by_its_type_or_words(error, begins):
    told = json.loads(answer_to(MESSAGES, CHAT).refusal(400, json.dumps({"error": error}).encode()))["error"]

    assert told["code"] == "context_length_exceeded"
    assert told["message"].startswith(begins)
