"""TLS at the listening socket: one context for the life of the process, with a reloadable certificate."""

import ssl

from router.config.certificate import TlsPaths, load_pair, read_certificate


class TlsFiles:
    def __init__(self, paths: TlsPaths) -> None:
        """Load both files. Raises `CertificateUnusable`."""
        self.paths = paths
        self.context = _new_context()
        load_pair(self.context, paths)

    def reload(self, paths: TlsPaths | None = None) -> None:
        """Reread the files for new connections. Raises `CertificateUnusable` and keeps the old pair."""
        paths = paths or self.paths
        read_certificate(paths)
        load_pair(_new_context(), paths)  # a trial: loading a mismatched key would drop the old one
        load_pair(self.context, paths)
        self.paths = paths


def _new_context() -> ssl.SSLContext:
    """TLS 1.2 or 1.3, with HTTP/1.1 alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # renegotiation is a cheap way to burn our CPU
    context.set_alpn_protocols(["http/1.1"])
    return context
