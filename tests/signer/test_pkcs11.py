"""Keys in a hardware module: made there, never out of it, and their signatures are ordinary Ed25519.

SoftHSM2 stands for the module. Where it is missing, it is installed with apt-get if we are root.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from bpc.core.audit.signing import verify_signature
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import sha256
from bpc.runtime.key_ring import KeyNotHeld
from bpc.runtime.settings import Settings

pkcs11 = pytest.importorskip("pkcs11", reason="the extra bpc[pkcs11] is not installed")

MODULES: Final = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so")
PIN: Final = "4711"


def find_module() -> str:
    if shutil.which("softhsm2-util") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "softhsm2"], check=False, capture_output=True, timeout=120)
    path = next((module for module in MODULES if Path(module).exists()), None)
    if path is None or shutil.which("softhsm2-util") is None:
        pytest.skip("softhsm2 is not installed, and could not be installed with apt-get")
    return path


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    module, tokens = find_module(), tmp_path / "tokens"
    tokens.mkdir()
    config = tmp_path / "softhsm2.conf"
    config.write_text(f"directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(config))
    command = ["softhsm2-util", "--init-token", "--free", "--label", "bpc", "--pin", PIN, "--so-pin", "9999"]
    subprocess.run(command, check=True, capture_output=True)
    return Settings(
        env="test", data_dir=tmp_path, signer_provider="pkcs11", signer_pkcs11_module=module, signer_pkcs11_pin=PIN
    )


def test_a_key_is_made_in_the_module_and_signs_there(settings: Settings) -> None:
    from bpc.signer.providers import open_provider

    provider = open_provider(settings)
    assert provider.find_public_key("acme-1") is None
    with pytest.raises(KeyNotHeld):
        provider.sign("acme-1", bytes(32))

    public_key = provider.create_key("acme-1")

    digest = sha256(b"a receipt")
    verify_signature(public_key, digest, provider.sign("acme-1", digest))
    assert provider.create_key("acme-1") == public_key == open_provider(settings).find_public_key("acme-1")
    assert provider.create_key("acme-2") != public_key
    session = provider._open_session()  # type: ignore[attr-defined]
    private_key = session.get_key(object_class=pkcs11.ObjectClass.PRIVATE_KEY, label="acme-1")
    with pytest.raises(pkcs11.PKCS11Error):
        _ = private_key[pkcs11.Attribute.VALUE]  # it never leaves the module
    with pytest.raises(Conflict, match="the token `another` cannot be opened"):
        open_provider(settings.model_copy(update={"signer_pkcs11_token": "another"}))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the library's search, as it ends
def test_a_session_that_was_lost_is_opened_again(settings: Settings) -> None:
    from bpc.signer.providers import open_provider

    provider = open_provider(settings)
    public_key = provider.create_key("acme-1")
    provider._open_session().close()  # type: ignore[attr-defined]  # as after a restart of the token

    digest = sha256(b"a receipt")
    signature = provider.sign("acme-1", digest)

    verify_signature(public_key, digest, signature)
