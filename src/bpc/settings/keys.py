"""The signing seed and the pepper: from the environment, otherwise made once and kept in the data folder. Further
signing keys: files `<key_id>.key` in a folder, BPC_SIGNING_KEYS_DIR or else the same one.

    environment set? ── yes ─► decode (already checked by Settings)
          │ no, dev or test (prod does not get this far: Settings insists)
          ├─► <folder>/<BPC_SIGNING_KEY_ID>.key, if the signing key has a file under its name
          └─► <data_dir>/keys/<file>, created by whoever links it first, read back by everybody

Ten processes that start at once agree on one value: each writes a file of its own, `link` gives the final
name to exactly one of them, and all read what is there. A key that others could have read is not used.
"""

import os
import shlex
import stat
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from bpc.settings.data_dir import prepare
from bpc.settings.kinds import KEY_ID
from bpc.settings.material import SEED_BYTES, pepper_from, seed_from
from bpc.settings.model import Settings, variable_of
from bpc.settings.problems import ConfigMissing

SIGNING: Final = variable_of("signing_ed25519_private_key_base64")
PEPPER: Final = variable_of("api_key_pepper_base64")
FURTHER: Final = variable_of("signing_keys_dir")
NO_NAMES: Final = frozenset({"signing", "pepper"})  # whose files hold what we made ourselves


def signing_seed(settings: Settings) -> bytes:
    """The 32 bytes of the Ed25519 key called `settings.signing_key_id`."""
    given = settings.signing_ed25519_private_key_base64
    if given is not None:
        return seed_from(given.get_secret_value())
    if (named := further_seed(settings, settings.signing_key_id)) is not None:
        return named
    return _kept(settings.data_dir, "signing.key", SIGNING, seed_from)


def signing_is_at_hand(settings: Settings) -> bool:
    """Whether there is one already: asking for it would make it."""
    named = key_file(settings, settings.signing_key_id)
    return (
        settings.signing_ed25519_private_key_base64 is not None
        or (named is not None and named.exists())
        or (settings.data_dir / "keys" / "signing.key").exists()
    )


def pepper(settings: Settings) -> bytes:
    """The bytes mixed into every stored hash of an API key."""
    given = settings.api_key_pepper_base64
    if given is not None:
        return pepper_from(given.get_secret_value())
    return _kept(settings.data_dir, "pepper.key", PEPPER, pepper_from)


def previous_pepper(settings: Settings) -> bytes | None:
    """The one before, accepted until no key hangs on it any more."""
    return _given(settings.api_key_pepper_previous_base64)


def next_pepper(settings: Settings) -> bytes | None:
    """The one to come, accepted because others may use it already."""
    return _given(settings.api_key_pepper_next_base64)


def pepper_is_at_hand(settings: Settings) -> bool:
    """Whether there is one already: asking for it would make it."""
    return settings.api_key_pepper_base64 is not None or (settings.data_dir / "keys" / "pepper.key").exists()


def _given(secret: SecretStr | None) -> bytes | None:
    return None if secret is None else pepper_from(secret.get_secret_value())


def key_file(settings: Settings, key_id: str) -> Path | None:
    """Where the private key called `key_id` belongs; None if no key can have that name."""
    if not KEY_ID.fullmatch(key_id) or key_id in NO_NAMES:
        return None
    folder = settings.data_dir / "keys" if settings.signing_keys_dir is None else settings.signing_keys_dir
    return folder / f"{key_id}.key"


def further_seed(settings: Settings, key_id: str) -> bytes | None:
    """The 32 bytes of the key called `key_id`, from its file; None where there is none."""
    path = key_file(settings, key_id)
    if path is None:
        return None
    try:
        text = _read(path, FURTHER)
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise _refused(FURTHER, f"`{path}` cannot be read: {failed.strerror}", fix="check its rights") from failed
    try:
        return seed_from(text)
    except ValueError as wrong:
        why = f"`{path}` {wrong}"
    raise _refused(FURTHER, why, fix="put the file there that `bpc keygen` wrote")


def _kept(data_dir: Path, file: str, name: str, decode: Callable[[str], bytes]) -> bytes:
    folder = prepare(data_dir) / "keys"
    path = folder / file
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _check_owned(folder, folder.stat(), name, "700")
        if not path.exists():
            _create(path)
        text = _read(path, name)
    except OSError as failed:
        raise _refused(name, f"`{path}` cannot be used: {failed.strerror}", fix=f"repair it, or set {name}") from failed
    try:
        return decode(text)
    except ValueError as wrong:
        why = f"`{path}` {wrong}"
    lost = "what was made with it will not fit another"
    raise _refused(name, why, fix=f"restore it from a backup: {lost}")


def _create(path: Path) -> None:
    """Give `path` a fresh value unless somebody was faster."""
    fresh = os.urandom(SEED_BYTES)  # noqa: TID251 - this is where the shell makes keys; nothing to replay
    mine = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(8).hex()}")  # noqa: TID251 - a free file name
    try:
        with os.fdopen(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(b64encode(fresh) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(mine)
    finally:
        mine.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # Without this a power cut may forget the name, and with it a key that has already signed.
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _read(path: Path, name: str) -> str:
    with path.open("rb") as file:
        _check_owned(path, os.fstat(file.fileno()), name, "600")
        return file.read(1024).decode("ascii", "replace").strip()


def _check_owned(path: Path, found: os.stat_result, name: str, mode: str) -> None:
    if found.st_uid != os.geteuid():
        raise _refused(name, f"`{path}` belongs to another user", fix=f"run as its owner, or set {name}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise _refused(name, f"`{path}` can be read by other users", fix=f"chmod {mode} {shlex.quote(str(path))}")


def _refused(name: str, sentence: str, *, fix: str) -> ConfigMissing:
    return ConfigMissing.of(name, sentence, fix=fix)
