"""The router's own certificate and key."""

import os
import re
import shlex
import ssl
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from router.config.certificate import (
    Certificate,
    CertificateUnusable,
    TlsPaths,
    check_pair,
    load_pair,
    read_certificate,
    warn_of_key,
)
from router.config.load import ConfigError, check_config
from router.wiring.build import known_names
from tests.conftest import SIMULATED
from tests.tools.certificates import CERT, EXPIRED, KEY, LEAF, LOCKED_KEY, OTHER_CERT, OTHER_KEY, TLS, write_pair

DAY = 86_400


@pytest.fixture
def paths(tmp_path):
    write_pair(tmp_path)
    return TlsPaths(tmp_path / "cert.pem", tmp_path / "key.pem")


def test_a_certificate_is_read_with_its_names_and_its_end(paths):
    found = read_certificate(paths)

    assert found[:2] == (("localhost", "127.0.0.1"), 4_733_510_400)
    assert found.describe(4_733_510_400 - 20 * DAY) == "for localhost, 127.0.0.1; expires on 2120-01-01, in 20 days"


@pytest.mark.parametrize(
    ("days_left", "is_soon", "is_expired", "words"),
    [
        (15, False, False, "in 15 days"),
        (14, True, False, "in 14 days"),
        (0.5, True, False, "within two days"),
        (0, True, True, "expired on 1970-04-11"),
        (-30, True, True, "expired on 1970-04-11"),
    ],
)
def test_two_weeks_before_its_end_a_certificate_expires_soon(days_left, is_soon, is_expired, words):
    certificate = Certificate(("a.example",), 100 * DAY)
    now = (100 - days_left) * DAY

    assert (certificate.expires_soon(now), certificate.is_expired(now)) == (is_soon, is_expired)
    assert words in certificate.describe(now)


def test_an_expired_pair_is_no_fault(tmp_path, paths):
    write_pair(tmp_path, EXPIRED)

    assert check_pair(paths).is_expired(time.time())


@pytest.mark.parametrize(("cert", "key", "setting", "problem"), [
    (CERT, OTHER_KEY, "server.tls.key", "is not the key of the certificate"),
    (CERT, LOCKED_KEY, "server.tls.key", "encrypted with a password"),
    (CERT, "words", "server.tls.key", "is not a PEM file with a private key"),
    (CERT, CERT, "server.tls.key", "is not a PEM file with a private key"),
    ("words", KEY, "server.tls.cert", "is not a PEM file with a certificate"),
    (KEY, KEY, "server.tls.cert", "is not a PEM file with a certificate"),
    ("", "", "server.tls.cert", "is not a PEM file with a certificate"),
], ids=["another's key", "locked", "text for a key", "no key", "text for a certificate", "no certificate", "empty"])  # fmt: skip
def test_a_pair_that_cannot_be_used_is_a_fault_of_the_config_with_a_hint(tmp_path, cert, key, setting, problem):
    write_pair(tmp_path, cert, key)

    with pytest.raises(ConfigError) as refused:
        check_config(SIMULATED + TLS, "test", tmp_path, known_names())

    (fault,) = refused.value.faults
    assert fault.path == setting
    assert problem in fault.problem
    assert fault.hint


@pytest.mark.parametrize("missing", ["cert", "key"])
def test_a_file_that_is_missing_is_named(tmp_path, paths, missing):
    getattr(paths, missing).unlink()

    with pytest.raises(CertificateUnusable) as unusable:
        check_pair(paths)

    fault = unusable.value.fault
    assert (fault.path, fault.problem) == (f"server.tls.{missing}", f"no such file: {getattr(paths, missing)}")


def test_a_folder_is_not_read_as_a_key(paths, tmp_path):
    with pytest.raises(CertificateUnusable, match=r"cannot be read \(Is a directory\)"):
        check_pair(paths._replace(key=tmp_path))


def test_issuers_may_follow_the_certificate(tmp_path, paths):
    write_pair(tmp_path, f"für uns:\n{LEAF}{OTHER_CERT}")

    found = check_pair(paths)

    assert found.names == ("localhost", "127.0.0.1")
    assert not found.is_authority


@pytest.mark.parametrize(("cert", "is_authority"), [(CERT, True), (LEAF, False), (LEAF + CERT, False)])
def test_the_certificate_of_a_ca_itself_is_told_from_one_that_it_signed(tmp_path, paths, cert, is_authority):
    write_pair(tmp_path, cert)

    assert read_certificate(paths).is_authority is is_authority


def test_the_page_makes_a_pair_that_clients_accept(tmp_path, paths):
    page = (Path(__file__).parents[3] / "docs" / "run" / "teams.md").read_text()
    commands = re.findall(r"^openssl req .*", page.replace("\\\n", ""), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=True)

    found = check_pair(paths)

    assert (found.names, found.is_authority) == (("tandem.example.com",), False)
    assert warn_of_key(paths) == []
    client, server = ssl.create_default_context(cafile=tmp_path / "ca.pem"), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(server, paths)
    assert shake_hands(client, server, "tandem.example.com") == "TLSv1.3"


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> str | None:
    """The version that both agree on, once the client trusts the server. Raises `ssl.SSLError`."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(down, up, server_hostname=name)
    for side in (caller, server.wrap_bio(up, down, server_side=True)) * 2:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return caller.version()


def test_a_pair_that_is_loaded_and_cannot_be_used_is_refused_in_words(tmp_path, paths):
    write_pair(tmp_path, CERT, OTHER_KEY)

    with pytest.raises(CertificateUnusable, match="hint: name the key"):
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), paths)


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_key_that_others_can_read_is_a_warning(tmp_path, paths):
    paths.key.chmod(0o644)

    loaded = check_config(SIMULATED + TLS, "test", tmp_path, known_names())

    assert loaded.tls_paths == paths
    assert [warning for warning in loaded.warnings if "server.tls.key: other users of this machine may read" in warning]
    paths.key.chmod(0o600)
    assert warn_of_key(paths) == []
