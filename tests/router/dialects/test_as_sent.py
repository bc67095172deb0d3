"""What a plan and its client get unchanged, and what stays here."""

import pytest

from router.contract.credential import Credential
from router.contract.words import Vendor
from router.dialects.as_sent import DIFFERENCES, Side, headers_to_plan, is_returned, is_returned_by_stream
from tests.tools.logins import chatgpt_login, chatgpt_token, claude_login

CLAUDE = Credential(claude_login()["authorization"].removeprefix("Bearer "), Vendor.ANTHROPIC, is_login=True)
CHATGPT = Credential(chatgpt_token(), Vendor.CHATGPT, is_login=True)


def test_a_clients_own_headers_pass_in_their_order_and_the_routers_stay_here():
    own = {"user-agent": "claude-cli/2", "x-app": "cli", **claude_login(), "x-stainless-lang": "js", "empty": ""}
    kept = {
        "host": "a",
        "x-tandem-tier": "deep",
        "x-api-key": "k",
        "content-length": "9",
        "x-forwarded-for": "b",
        ":query": "a=b",
    }

    assert headers_to_plan({**kept, **own}, CLAUDE) == tuple(own.items())


def test_an_account_goes_to_its_own_vendor_alone():
    assert dict(headers_to_plan(chatgpt_login(), CHATGPT)) == chatgpt_login()
    assert "chatgpt-account-id" not in dict(headers_to_plan({**claude_login(), "chatgpt-account-id": "a"}, CLAUDE))


def test_a_login_from_the_routers_own_header_takes_the_place_of_what_the_client_sent():
    headers = {"authorization": "Bearer tandem", "x-tandem-upstream-key": CLAUDE.text}

    assert headers_to_plan(headers, CLAUDE) == (("authorization", f"Bearer {CLAUDE.text}"),)


@pytest.mark.parametrize("side", Side)
def test_every_header_that_stays_here_is_on_the_list(side):
    listed = " ".join(row.headers for row in DIFFERENCES if row.side is side).split()

    for name in listed:
        full = name.replace("*", "any")
        if side is Side.REQUEST:
            assert headers_to_plan({full: "x", **claude_login()}, CLAUDE) == tuple(claude_login().items())
        else:
            assert not is_returned(full)
            assert not is_returned_by_stream(full)


def test_what_a_plan_tells_its_client_is_returned():
    told = ("x-codex-primary-used-percent", "anthropic-ratelimit-unified-status", "retry-after", "cf-ray", "x-anything")

    assert all(map(is_returned, told))
    assert all(map(is_returned_by_stream, told))
    assert is_returned("content-type")
    assert not is_returned_by_stream("content-type")
