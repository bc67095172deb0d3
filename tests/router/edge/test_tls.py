"""The context of the listening socket, and its certificate while it is in use."""

import ssl

import pytest

from router.config.certificate import CertificateUnusable, TlsPaths
from router.edge.tls import TlsFiles
from tests.tools.certificates import CERT, KEY, OTHER_CERT, OTHER_KEY, client_context, write_pair


@pytest.fixture
def files(tmp_path):
    write_pair(tmp_path)
    return TlsFiles(TlsPaths(tmp_path / "cert.pem", tmp_path / "key.pem"))


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's end of a connection, once both agree. Raises what the client, or the server, has against it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    for end in ends * 3:
        try:
            end.do_handshake()
            waiting = [other for other in waiting if other is not end]
        except ssl.SSLWantReadError:
            pass
    assert not waiting
    return ends[0]


def serves(files: TlsFiles, cert: str) -> bool:
    """Whether a client that trusts this certificate alone accepts what the router shows."""
    try:
        shake_hands(files.context, client_context(cert))
    except ssl.SSLCertVerificationError:
        return False
    return True


def test_a_client_that_trusts_the_certificate_speaks_tls_1_3_and_http_1_1(files):
    client = client_context()
    client.set_alpn_protocols(["h2", "http/1.1"])

    agreed = shake_hands(files.context, client)

    assert (agreed.version(), agreed.selected_alpn_protocol()) == ("TLSv1.3", "http/1.1")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("version", "is_served"), [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)]
)
def test_nothing_older_than_tls_1_2_is_spoken(files, version, is_served):
    client = client_context()
    client.set_ciphers("DEFAULT:@SECLEVEL=0")  # or the client itself would not offer what is old
    client.minimum_version = client.maximum_version = version
    try:
        shake_hands(files.context, client)
        spoken = True
    except ssl.SSLError:
        spoken = False

    assert spoken is is_served


def test_a_reload_shows_the_new_certificate_on_the_same_context(files, tmp_path):
    context = files.context
    write_pair(tmp_path, OTHER_CERT, OTHER_KEY)
    before = serves(files, CERT)

    files.reload()

    assert before
    assert files.context is context
    assert (serves(files, CERT), serves(files, OTHER_CERT)) == (False, True)


def test_a_reload_may_name_other_files(files, tmp_path):
    (tmp_path / "new").mkdir()
    write_pair(tmp_path / "new", OTHER_CERT, OTHER_KEY)
    paths = TlsPaths(tmp_path / "new" / "cert.pem", tmp_path / "new" / "key.pem")

    files.reload(paths)

    assert files.paths == paths
    assert serves(files, OTHER_CERT)


@pytest.mark.parametrize(
    ("cert", "key"), [(OTHER_CERT, KEY), (CERT, OTHER_KEY), ("words", OTHER_KEY), (OTHER_CERT, "words"), ("", "")]
)
def test_a_pair_that_cannot_be_used_is_refused_with_words_and_the_old_one_is_kept(files, tmp_path, cert, key):
    write_pair(tmp_path, cert, key)

    with pytest.raises(CertificateUnusable, match=r"server\.tls\.(cert|key): .*\n  hint: "):
        files.reload()

    assert serves(files, CERT)
