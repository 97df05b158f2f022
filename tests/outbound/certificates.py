"""An authority of our own, and certificates by it."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

FROM = datetime(2020, 1, 1, tzinfo=UTC)
UNTIL = FROM + timedelta(days=365 * 80)


def _make_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass
class Authority:
    """Issues certificates; `trusted` is a client's context that accepts them."""

    folder: Path

    def __post_init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = (
            self._start_certificate("authority", self.key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    @property
    def client_context(self) -> ssl.SSLContext:
        pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=pem)

    def make_server_context(self, name: str, *, until: datetime = UNTIL) -> ssl.SSLContext:
        """The context of a server that shows a certificate for `name`, a host or an address."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            alternative: x509.GeneralName = x509.IPAddress(ip_address(name))
        except ValueError:
            alternative = x509.DNSName(name)
        certificate = (
            self._start_certificate(name, key.public_key(), until=until)
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        file = self.folder / f"{name.replace(':', '_')}.pem"
        plain = serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        file.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _start_certificate(
        self, name: str, public: ec.EllipticCurvePublicKey, *, until: datetime = UNTIL
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_make_name(name))
            .issuer_name(_make_name("authority"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(FROM)
            .not_valid_after(until)
        )
