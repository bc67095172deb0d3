"""Proxies of the environment that are not used, and whether somebody hears of it."""

import pytest

from router.config.warn import proxy_warnings

REMOTE = ["https://api.example.com/v1"]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_a_proxy_for_everything_is_reported_as_not_read(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://u:s3cret-word@proxy.corp:3128")

    (warning,) = proxy_warnings(REMOTE)

    assert warning.startswith("ALL_PROXY is not read")
    assert "set HTTPS_PROXY" in warning
    assert "s3cret-word" not in warning


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "ALL_PROXY", "all_proxy"])
def test_a_socks_proxy_is_reported_as_not_supported(monkeypatch, name):
    monkeypatch.setenv(name, "socks5://u:s3cret-word@proxy.corp:1080")

    (warning,) = proxy_warnings(REMOTE)

    assert name in warning
    assert "not supported" in warning
    assert "s3cret-word" not in warning


@pytest.mark.parametrize(
    ("variables", "addresses"),
    [
        ({}, REMOTE),
        ({"HTTPS_PROXY": "http://proxy:1", "ALL_PROXY": "socks5://proxy:1"}, REMOTE),
        ({"HTTPS_PROXY": "proxy:3128"}, REMOTE),
        ({"ALL_PROXY": "http://proxy:1"}, ["https://localhost/v1", "http://models.corp/v1", ""]),
        ({"ALL_PROXY": "http://proxy:1", "NO_PROXY": "*"}, REMOTE),
    ],
)
def test_nothing_is_said_where_no_proxy_is_passed_over(monkeypatch, variables, addresses):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert proxy_warnings(addresses) == []


@pytest.mark.parametrize("url", ["http://me:p[ss@proxy.example:8080", "http://me:p\N{ACCOUNT OF}ss@proxy.example:8080"])
def test_a_password_that_is_not_percent_encoded_stops_nothing(monkeypatch, url):
    monkeypatch.setenv("HTTPS_PROXY", url)

    assert proxy_warnings(["https://api.example.com/v1"]) == []
