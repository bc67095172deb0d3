"""Addresses of Valkey and Redis servers."""

import pytest

from router.stores.valkey.address import Address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://h", Address("h", 6379, "", is_tls=False, user="", password="", database=0)),
        ("rediss://u:p%40ss@h:7000/3", Address("h", 7000, "", is_tls=True, user="u", password="p@ss", database=3)),
        ("unix://:p@/run/a%20b.sock", Address("", 0, "/run/a b.sock", is_tls=False, user="", password="p", database=0)),
        ("valkey://[::1]:1/", Address("::1", 1, "", is_tls=False, user="", password="", database=0)),
    ],
)
def test_an_address_is_taken_apart(url, address):
    assert Address.read(url) == address
