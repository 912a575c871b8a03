"""Authorities and certificates for tests of encrypted connections; moto brings `cryptography`."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """An authority that signs certificates; its own is in `path`."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self.folder, self.name = folder, _name(f"authority of {name}")
        folder.mkdir(parents=True, exist_ok=True)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / "ca.crt"
        own = self._builder(self.name, self.key, -DAY, 365 * DAY)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        signed = own.sign(self.key, hashes.SHA256())
        self.path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        since: datetime.timedelta,
        until: datetime.timedelta,
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + since)
            .not_valid_after(now + until)
        )

    def sign(
        self,
        name: str,
        *hosts: str,
        since: datetime.timedelta = -DAY,
        until: datetime.timedelta = DAY,
        password: str | None = None,
    ) -> tuple[Path, Path]:
        """A certificate for these addresses and names, and its key: the paths of both files."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._builder(_name(name), key, since, until)
        alternatives: list[x509.GeneralName] = []
        for host in hosts:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                alternatives.append(x509.DNSName(host))
        certificate = certificate.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        if alternatives:
            certificate = certificate.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        signed = certificate.sign(self.key, hashes.SHA256())
        paths = (self.folder / f"{name}.crt", self.folder / f"{name}.key")
        hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            hidden = serialization.BestAvailableEncryption(password.encode())
        files = (
            signed.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                hidden,
            ),
        )
        for path, content in zip(paths, files, strict=True):
            # As `cert-manager` does: a reader sees the old file or the new one.
            draft = path.with_suffix(".draft")
            draft.write_bytes(content)
            draft.replace(path)
        return paths

    def variables(self, pair: tuple[Path, Path]) -> dict[str, str]:
        """The environment of who shows that certificate."""
        certificate, key = pair
        return {
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": str(certificate),
            "RAY_TLS_SERVER_KEY": str(key),
            "RAY_TLS_CA_CERT": str(self.path),
        }
