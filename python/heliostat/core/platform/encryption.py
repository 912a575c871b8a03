"""The certificates of Python's own servers and clients for other machines: as Rust's for all others
(decision 51).

``RAY_USE_TLS=1`` asks for it, and ``RAY_TLS_SERVER_CERT``, ``RAY_TLS_SERVER_KEY`` and
``RAY_TLS_CA_CERT`` name the files; a node that was started with ``--tls=auto`` keeps its own in
the session's folder.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import NamedTuple

from heliostat.core.platform import settings


class Files(NamedTuple):
    """Paths of this machine's certificate, its key, and the authority that others' are checked with."""

    certificate: str
    key: str
    authority: str


def files(session_dir: str | None = None) -> Files | None:
    """Return the files that connections between machines need; ``None``: they are not encrypted."""
    if settings.flag("USE_TLS"):
        return Files(
            *(settings.text(f"TLS_{name}") for name in ("SERVER_CERT", "SERVER_KEY", "CA_CERT"))
        )
    own = Path(session_dir or "", "tls")
    if session_dir is None or not (own / "certificate.pem").exists():
        return None
    return Files(*(str(own / f"{name}.pem") for name in ("certificate", "key", "authority")))


class Accepting:
    """The server's side of connections with other processes of the cluster, which show a
    certificate, too.
    """

    def __init__(self, files: Files) -> None:
        self._pair = (files.certificate, files.key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.load_verify_locations(files.authority)
        self._seen = self._look()
        self.context.load_cert_chain(*self._pair)

    def _look(self) -> list[tuple[int, int]]:
        return [(found.st_ino, found.st_mtime_ns) for found in map(os.stat, self._pair)]

    def refresh(self) -> None:
        """Before a connection is taken up: a certificate that was renewed is shown from here on."""
        try:
            seen = self._look()
            if seen != self._seen:
                self.context.load_cert_chain(*self._pair)
                self._seen = seen
        except (OSError, ssl.SSLError):
            pass  # half of a change: the old certificate stays until the other half is there
