"""TLS at the listening socket: one context for as long as the process runs, whose certificate can be loaded again."""

import ssl

from router.config.certificate import TlsPaths, load_pair, read_certificate


class TlsFiles:
    """The certificate and key that the router serves HTTPS with."""

    def __init__(self, paths: TlsPaths) -> None:
        """Load both. Raises `CertificateUnusable`."""
        self.paths = paths
        self.context = _new_context()
        load_pair(self.context, paths)

    def reload(self, paths: TlsPaths | None = None) -> None:
        """Read both files again, or from other paths. New connections get the new certificate; open ones keep theirs.

        Raises `CertificateUnusable` and keeps the old pair if the new one cannot be used.
        """
        paths = paths or self.paths
        read_certificate(paths)
        load_pair(_new_context(), paths)  # first where it does no harm: a key that does not match takes the old one away
        load_pair(self.context, paths)
        self.paths = paths


def _new_context() -> ssl.SSLContext:
    """TLS 1.2 or 1.3, and HTTP/1.1, which is all that the router speaks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # which lets a caller make the router compute at little cost of its own
    context.set_alpn_protocols(["http/1.1"])
    return context
