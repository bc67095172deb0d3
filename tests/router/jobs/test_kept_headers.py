"""What of a request's head lies on disk with its job."""

from router.jobs.desk import keep_headers

READ = {
    "user-agent": "codex",
    "x-tandem-tier": "deep",
    "session-id": "s_1",
    "x-openai-subagent": "review",
    "x-codex-turn-state": "t_1",
    "x-claude-code-session-id": "s_2",
    "traceparent": "00-1-2-01",
}
NOT_READ = """authorization x-api-key cookie x-tandem-upstream-key my-token idempotency-key host cf-access-jwt-assertion x-amzn-oidc-data
    x-goog-iap-jwt-assertion x-note"""


def test_only_headers_that_are_read_on_the_road_are_kept():
    assert keep_headers({**dict.fromkeys(NOT_READ.split(), "sk-1"), **READ}) == READ


def test_a_key_of_the_router_in_a_kept_header_is_masked():
    assert keep_headers({"x-tandem-session": "tdm_0a1b2c3d_abcdef"}) == {"x-tandem-session": "tdm_0a1b2c3d_***"}
