"""Small honest values for the tests of settings."""

from base64 import b64encode
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bpc.runtime.settings import ConfigMissing, Settings, load_settings

SEED = bytes(range(32))
PUBLIC = Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()
PEPPER = b"sixteen bytes ok"

PROD = {
    "BPC_ENV": "prod",
    "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64": b64encode(SEED).decode(),
    "BPC_API_KEY_PEPPER_BASE64": b64encode(PEPPER).decode(),
    "BPC_DB_HOST": "db.example",
    "BPC_DB_PASSWORD": "a real one",
}
NOWHERE = Path("/nonexistent")


def load_from(environ: dict[str, str] | None = None, cwd: Path = NOWHERE) -> Settings:
    return load_settings({"HOME": "/home/ada", **(environ or {})}, cwd=cwd)


def load_refused(environ: dict[str, str], cwd: Path = NOWHERE) -> ConfigMissing:
    try:
        load_from(environ, cwd)
    except ConfigMissing as problem:
        return problem
    raise AssertionError("it was accepted")


def list_wrong_names(environ: dict[str, str], cwd: Path = NOWHERE) -> list[str]:
    return [problem.name for problem in load_refused(environ, cwd).problems]
