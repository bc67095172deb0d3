"""Certificates for localhost or router.example.com, valid from 2020 to 2120 and untrusted."""

import ssl
from pathlib import Path

CERT = """\
-----BEGIN CERTIFICATE-----
MIIBZzCCAQ2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABN9t/qsBgH8FHCW8
nhJTxkxTxGS0w3LMCUeQQt86zBwK5Xvg9RrssQZLAjjQRWLLZ0/iDWRHZA47v7pJ
aOgqymmjTjBMMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAPBgNVHRMBAf8E
BTADAQH/MB0GA1UdDgQWBBQ2HndvWJp8i+asxA+8Thz8GLezdTAKBggqhkjOPQQD
AgNIADBFAiEA41vxVc2qRIQUtdmaUKPNVySlE08LjZvvgC6ljJmb6J4CIEUY2Afu
nactTebkIbHz+uqz0LjIkA4xgu7230P4Ze+q
-----END CERTIFICATE-----
"""
"""For localhost and 127.0.0.1."""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgOVlqzIaUurHlkSgB
RH5I7EDVwQMdVpQ8iIlLUdzj82+hRANCAATfbf6rAYB/BRwlvJ4SU8ZMU8RktMNy
zAlHkELfOswcCuV74PUa7LEGSwI40EViy2dP4g1kR2QOO7+6SWjoKspp
-----END PRIVATE KEY-----
"""
LEAF = """\
-----BEGIN CERTIFICATE-----
MIIBRDCB66ADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCWxvY2FsaG9z
dDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowFDESMBAGA1UEAwwJ
bG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE323+qwGAfwUcJbye
ElPGTFPEZLTDcswJR5BC3zrMHArle+D1GuyxBksCONBFYstnT+INZEdkDju/uklo
6CrKaaMsMCowGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMAwGA1UdEwEB/wQC
MAAwCgYIKoZIzj0EAwIDSAAwRQIhAL4YmIRYmzrO118eds0MrbmTUJIPgj8UQDTV
pfb9047EAiATkYRq1KqET7h68p6BT+xJaUKqskfbv6DwowIDmhxfiQ==
-----END CERTIFICATE-----
"""
"""For localhost and 127.0.0.1, with the same key, and not a CA's as the others are."""
EXPIRED = """\
-----BEGIN CERTIFICATE-----
MIIBZTCCAQugAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwHhcNMjAwMTAxMDAwMDAwWhcNMjEwMTAxMDAwMDAwWjAUMRIwEAYDVQQDDAls
b2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATfbf6rAYB/BRwlvJ4S
U8ZMU8RktMNyzAlHkELfOswcCuV74PUa7LEGSwI40EViy2dP4g1kR2QOO7+6SWjo
Ksppo04wTDAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwDwYDVR0TAQH/BAUw
AwEB/zAdBgNVHQ4EFgQUNh53b1iafIvmrMQPvE4c/Bi3s3UwCgYIKoZIzj0EAwID
SAAwRQIhAKC1dDLd6whQzCK/mKvlLuIdCKdeWv3lcH9Nv2GHlCtzAiBRFIatgOwq
DI6RmUsQLMoeVOeugGV/G6x6sz9e7sdSlQ==
-----END CERTIFICATE-----
"""
"""For localhost, expired at the end of 2020."""
OTHER_CERT = """\
-----BEGIN CERTIFICATE-----
MIIBgjCCASigAwIBAgIBATAKBggqhkjOPQQDAjAdMRswGQYDVQQDDBJyb3V0ZXIu
ZXhhbXBsZS5jb20wIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMB0x
GzAZBgNVBAMMEnJvdXRlci5leGFtcGxlLmNvbTBZMBMGByqGSM49AgEGCCqGSM49
AwEHA0IABHWx4YdNyZIQfYIh6QjZJvCb9LRv4gE1ZgmBuVCJuNRnJaSwWep/967j
qk0XhFgNifHufkB96S+BzdrMVHuxTsijVzBVMCMGA1UdEQQcMBqCEnJvdXRlci5l
eGFtcGxlLmNvbYcEfwAAATAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBSbCMgc
CgCBMJer4HZ0CfnTW3x9QjAKBggqhkjOPQQDAgNIADBFAiBZyd9Ai09vWtUUFYZ2
ux0wBingCyKCFcKbZxOvWVfE5AIhAJvR/l49p813fb5MGetR09ZpIfCwDLMkFgqV
6meRmQ7U
-----END CERTIFICATE-----
"""
"""For router.example.com and 127.0.0.1."""
OTHER_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0oE2EKKNu03Dp1F6
BeFV5sy+127Qrfc9CBf9pBKdVkGhRANCAAR1seGHTcmSEH2CIekI2Sbwm/S0b+IB
NWYJgblQibjUZyWksFnqf/eu46pNF4RYDYnx7n5Afekvgc3azFR7sU7I
-----END PRIVATE KEY-----
"""
LOCKED_KEY = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjG3IrY7zSl2gICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEN5h7BBpgCX1VzUsjKG29IAEgZBX
JijwUdDq9WV6V8p3TEczyPYq1aVy3TybLb7x+pL/Vi7oi9szp7qoRgvq9ChGhK0D
k+laDSdmELMh7ybjUrIqNOM/x6li2EIOVGI3uIr5Mys870907d99+nchUg5Up0Dx
5WWoxZsLppRsWzwHgvzCM+1f1hg/8VZEZ+l9zaKJrmik9BKky3cd1a+sim5qBdc=
-----END ENCRYPTED PRIVATE KEY-----
"""
"""The first key, encrypted with a password."""

TLS = "server: {tls: {cert: cert.pem, key: key.pem}}\n"
"""The config for the files that `write_pair` writes."""


def write_pair(folder: Path, cert: str = CERT, key: str = KEY) -> None:
    """Write private cert.pem and key.pem."""
    for name, content in (("cert.pem", cert), ("key.pem", key)):
        (folder / name).write_text(content)
        (folder / name).chmod(0o600)


def client_context(cert: str = CERT) -> ssl.SSLContext:
    """A client's context that trusts one certificate."""
    return ssl.create_default_context(cadata=cert)
