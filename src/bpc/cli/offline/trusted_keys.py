"""The keys that a verifier trusts: as arguments, as a list of a person, or as the key set that an issuer publishes."""

from collections.abc import Sequence
from pathlib import Path

from bpc.cli.support.output import read_bytes
from bpc.core.audit.signing import BadKey, PublicKey, from_base64, parse_public_key, read_key_set
from bpc.core.errors import Invalid
from bpc.core.verify.artifacts import Pin


def read_trusted_keys(texts: Sequence[str], file: Path | None) -> list[Pin]:
    """The keys of the arguments and of a file, in this order."""
    keys: list[Pin] = [_parse_public_key(text, "--key") for text in texts]
    if file is None:
        return keys
    file_keys = _read_key_file(file)
    if not file_keys:  # an empty list trusts nobody, which is not the same as no list
        raise Invalid(f"`{file}` contains no key", fix="write one public key a line, in base64")
    return keys + file_keys


def _read_key_file(file: Path) -> list[Pin]:
    """The keys of a file: a key set that an issuer publishes, or a list that a person wrote, with `#` for comments.

    In a key set each key has a name and is trusted only for signatures that name it.
    """
    data = read_bytes(str(file))
    if data.lstrip().startswith(b"{"):
        return list(read_key_set(data))
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise Invalid(f"`{file}` is not a list of keys", fix="write one public key a line, in base64") from None
    texts = [(number, line.split("#")[0].strip()) for number, line in enumerate(lines, 1)]
    return [_parse_public_key(text, f"{file}, line {number}") for number, text in texts if text]


def _parse_public_key(text: str, where: str) -> PublicKey:
    try:
        return parse_public_key(from_base64(text))
    except BadKey as refusal:
        raise Invalid(f"{where}: {refusal.says}", fix="give the public key as `bpc keygen` printed it") from None
