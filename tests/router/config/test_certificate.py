"""The router's own certificate and key."""

import os
import ssl
import time

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
from tests.tools.certificates import CERT, EXPIRED, KEY, LOCKED_KEY, OTHER_CERT, OTHER_KEY, TLS, write_pair

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
    write_pair(tmp_path, CERT + OTHER_CERT)

    assert check_pair(paths).names == ("localhost", "127.0.0.1")


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
