"""Settings of the signer and of the way to it: its address, who may ask, where its keys and its record are."""

from pathlib import Path

from pydantic import BaseModel, Field, SecretStr

from bpc.runtime.settings.value_types import SignerPlace


class SignerSettings(BaseModel):
    """What the signer and those who ask it have in common."""

    signer_address: SignerPlace | None = Field(
        None, description="Where the signer listens: a socket's path, or host:port; unset, a socket in the data folder."
    )
    signer_callers: str | None = Field(
        None, description="Who may ask the signer: user ids, names of certificates; unset, the user it runs as."
    )
    signer_provider: str = Field("file", description="Where the signer has private keys: file, pkcs11, or a plug-in.")
    signer_record_file: Path | None = Field(
        None, description="The signer's own record of what it signed; unset, `signer/record.jsonl` in the data folder."
    )
    signer_tls_certificate_file: Path | None = Field(None, description="Certificate of this side, for TCP.")
    signer_tls_key_file: Path | None = Field(None, description="Private key of that certificate.")
    signer_tls_ca_file: Path | None = Field(None, description="Authority whose certificates the other side must have.")
    signer_pkcs11_module: Path | None = Field(None, description="Library of the hardware module, for pkcs11.")
    signer_pkcs11_token: str = Field("bpc", description="Label of the token that has the keys.")
    signer_pkcs11_pin: SecretStr | None = Field(None, description="PIN of that token.")
