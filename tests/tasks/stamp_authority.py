"""A time stamp authority on this machine: `openssl ts` behind an HTTP address."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bpc.runtime import clock
from bpc.runtime.static_server import StaticAnswer, serve_requests
from bpc.runtime.time_stamps import ANSWER_TYPE

CONFIGURATION = """
[tsa]
default_tsa = authority
[authority]
serial = {folder}/serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""


@dataclass(frozen=True, slots=True)
class StampAuthority:
    """An authority: its folder, with its root certificate, and where it answers."""

    folder: Path
    url: str

    @property
    def root_file(self) -> Path:
        return self.folder / "root.pem"


def make_certificates(folder: Path) -> None:
    """A root certificate, and below it one that may stamp times and do nothing else."""
    root_key = ec.generate_private_key(ec.SECP256R1())
    for name, key, is_root in (("root", root_key, True), ("stamps", ec.generate_private_key(ec.SECP256R1()), False)):
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(clock.now() - timedelta(days=1))
            .not_valid_after(clock.now() + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_root, path_length=None), critical=True)
        )
        if not is_root:
            builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
        certificate = builder.sign(root_key, hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        private_bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.key").write_bytes(private_bytes)


@contextmanager
def run_authority() -> Iterator[StampAuthority]:
    """An authority that answers as long as the block runs."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, which is the authority here")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_certificates(folder)
        (folder / "tsa.conf").write_text(CONFIGURATION.format(folder=folder))
        (folder / "serial").write_text("01\n")

        def answer(method: str, path: str, body: bytes) -> StaticAnswer:
            (folder / "query").write_bytes(body)
            command = ["openssl", "ts", "-reply", "-queryfile", "query", "-config", "tsa.conf"]
            command += ["-signer", "stamps.pem", "-inkey", "stamps.key", "-out", "reply"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            body = (folder / "reply").read_bytes()
            return StaticAnswer(status=200, body=body, headers={"Content-Type": ANSWER_TYPE})

        with serve_requests("127.0.0.1", 0, answer) as port:
            yield StampAuthority(folder, f"http://127.0.0.1:{port}/stamps")
