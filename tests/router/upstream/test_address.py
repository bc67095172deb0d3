"""URLs taken apart, and the proxies of the environment."""

from base64 import b64decode

import pytest

from router.contract.relay import Tls
from router.upstream.address import Proxy, bypasses_proxy, pool_key, read_address, read_proxy


def test_a_url_is_taken_apart_with_the_usual_ports():
    plain, secure = read_address("http://models.example:8080/v1/chat"), read_address("https://models.example")

    assert (plain.host, plain.port, plain.is_tls, plain.authority, plain.path) == (
        "models.example", 8080, False, "models.example:8080", "/v1/chat",
    )  # fmt: skip
    assert (secure.port, secure.is_tls, secure.path) == (443, True, "/")
    assert read_address("https://models.example/v1/chat?api-version=2").path == "/v1/chat?api-version=2"
    assert read_address("https://models.example?x=1").path == "/?x=1"


def test_two_paths_of_one_host_share_connections_and_other_hosts_ports_schemes_and_certificates_do_not():
    base = read_address("http://a.example/v1/chat")

    assert pool_key(base, None) == pool_key(read_address("http://a.example/v1/responses"), None)
    keys = {
        pool_key(base, None),
        pool_key(base, Tls(ca_file="x")),
        pool_key(base, Tls(ca_file="y")),
        pool_key(read_address("https://a.example/v1"), None),
        pool_key(read_address("http://a.example:81/v1"), None),
        pool_key(read_address("http://b.example/v1"), None),
    }
    assert len(keys) == 6


@pytest.mark.parametrize(
    ("exceptions", "bypassed"),
    [
        ("", False),
        ("*", True),
        ("example.com", True),
        (".example.com", True),
        ("other.com", False),
        ("api.example.com:443", True),
    ],
)
def test_no_proxy_names_hosts_domains_and_everything(exceptions, bypassed):
    assert bypasses_proxy("api.example.com", exceptions) is bypassed


def test_a_proxy_of_the_environment_serves_https_and_never_loopback(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    read_address.cache_clear()

    assert read_address("https://api.example.com/v1").proxy == Proxy("127.0.0.1", 3128, "HTTPS_PROXY")
    assert read_address("https://localhost/v1").proxy is None
    assert read_address("http://api.example.com/v1").proxy is None
    read_address.cache_clear()


def test_the_user_and_password_of_a_proxy_are_decoded_and_never_printed():
    proxy = read_proxy("http://us%40er:p%3Ass@proxy.corp:3128", "HTTPS_PROXY")

    assert b64decode(proxy.credentials.removeprefix("Basic ")) == b"us@er:p:ss"
    assert (proxy.host, proxy.port) == ("proxy.corp", 3128)
    assert "p:ss" not in repr(proxy)
    assert proxy.credentials not in repr(proxy)


@pytest.mark.parametrize("url", ["http://", "http://proxy:port", ""])
def test_what_names_no_host_or_port_has_no_host(url):
    assert read_proxy(url, "HTTPS_PROXY").host == ""


@pytest.mark.parametrize(
    ("url", "is_supported"), [("proxy:3128", True), ("HTTP://proxy", True), ("socks5h://proxy:1080", False)]
)
def test_a_socks_proxy_is_not_one_that_can_be_used(url, is_supported):
    assert read_proxy(url, "HTTPS_PROXY").is_supported is is_supported


@pytest.mark.parametrize("password", ["p[ss", "p]ss", "p\N{ACCOUNT OF}ss", "p#ss", "p/ss"])
def test_a_password_that_is_not_percent_encoded_makes_it_no_address(password):
    proxy = read_proxy(f"http://me:{password}@proxy.example:8080", "HTTPS_PROXY")

    assert (proxy.host, proxy.variable) == ("", "HTTPS_PROXY")
