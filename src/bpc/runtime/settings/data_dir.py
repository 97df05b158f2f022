"""The data folder, and the keys in it.

The folder is made so that only its owner can look inside. Nothing that exists is ever changed: `BPC_DATA_DIR=/tmp` by
mistake must not take `/tmp` from everybody.

The signing seed and the pepper come from the environment; otherwise they are generated once and stored in the data
folder. Other signing keys are files `<key_id>.key` in BPC_SIGNING_KEYS_DIR, or else in the same folder.

    environment set? ── yes ─► decode (already checked by Settings)
          │ no, dev or test (prod does not get this far: Settings requires them)
          ├─► <folder>/<BPC_SIGNING_KEY_ID>.key, if the signing key has a file under its name
          └─► <data_dir>/keys/<file>, created by the first process that links it, read back by all

Ten processes that start at once agree on one value: each writes a file of its own, `link` gives the final
name to exactly one of them, and all read what is there. A key that others could have read is not used.
"""

import os
import pwd
import shlex
import stat
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from bpc.runtime.settings.model import Settings, name_variable
from bpc.runtime.settings.problems import ConfigMissing
from bpc.runtime.settings.value_types import KEY_ID, SEED_BYTES, decode_pepper, decode_seed

DATA_DIR_VARIABLE: Final = "BPC_DATA_DIR"
OWNER_ONLY_MODE: Final = 0o700
# The embedded PostgreSQL refuses to run as root: its system user must pass through to its own folder inside.
OWNER_AND_TRAVERSE_MODE: Final = 0o711


def choose_default_data_dir(environ: Mapping[str, str], *, root: bool) -> Path:
    """`/var/lib/bpc` for root, whose home nobody else can enter; otherwise where XDG puts a user's data."""
    if root:
        return Path("/var/lib/bpc")
    # XDG Base Directory Specification: a relative path is invalid and ignored.
    xdg_data_home = Path(environ.get("XDG_DATA_HOME", ""))
    return (xdg_data_home if xdg_data_home.is_absolute() else find_home(environ) / ".local" / "share") / "bpc"


def find_home(environ: Mapping[str, str]) -> Path:
    """The user's home from `environ`, or from the system's list of users; some containers have neither."""
    if environ.get("HOME"):
        return Path(environ["HOME"])
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        says = f"`{DATA_DIR_VARIABLE}` is not set and there is no home folder to keep data in"
    raise ConfigMissing.for_setting(DATA_DIR_VARIABLE, says, fix=f"set {DATA_DIR_VARIABLE} to a folder that you own")


def prepare_data_dir(path: Path) -> Path:
    """Create the data folder if it is not there, and refuse one that others own or can write to."""
    mode = OWNER_AND_TRAVERSE_MODE if os.geteuid() == 0 else OWNER_ONLY_MODE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _make_folder(path, mode)
        status = path.stat()
    except OSError as error:
        raise _data_dir_error(
            path, f"cannot be used: {error.strerror}", "set {name} to a folder you may write to"
        ) from error
    _check_owner_and_mode(path, status)
    return path


def _make_folder(path: Path, mode: int) -> None:
    try:
        path.mkdir(mode)
    except FileExistsError:
        return
    path.chmod(mode)  # mkdir's mode is cut by the umask, and root's 0711 must not become 0700


def _check_owner_and_mode(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise _data_dir_error(path, "is a file, not a folder", "set {name} to a folder")
    if status.st_uid != os.geteuid():
        raise _data_dir_error(
            path, "belongs to another user", "run as its owner, or set {name} to a folder that you own"
        )
    # A private group of one's own is usual for people; what root trusts, a group must not write to.
    foreign_write_bits = stat.S_IWOTH | (stat.S_IWGRP if os.geteuid() == 0 and status.st_gid != 0 else 0)
    if status.st_mode & foreign_write_bits:
        is_sticky = status.st_mode & stat.S_ISVTX  # /tmp and its like are meant to be so
        chmod_hint = "" if is_sticky else f"chmod go-w {shlex.quote(str(path))}, or "
        raise _data_dir_error(path, "can be written to by others", f"{chmod_hint}set {{name}} to a folder that you own")


def _data_dir_error(path: Path, why: str, fix: str) -> ConfigMissing:
    return ConfigMissing.for_setting(
        DATA_DIR_VARIABLE, f"the data folder `{path}` {why}", fix=fix.replace("{name}", DATA_DIR_VARIABLE)
    )


# Keys ----------------------------------------------------------------------------------------------------------------

SIGNING_KEY_VARIABLE: Final = name_variable("signing_ed25519_private_key_base64")
PEPPER_VARIABLE: Final = name_variable("api_key_pepper_base64")
KEYS_DIR_VARIABLE: Final = name_variable("signing_keys_dir")
LOG_KEY_VARIABLE: Final = name_variable("tlog_ed25519_private_key_base64")
RESERVED_NAMES: Final = frozenset({"signing", "pepper", "log"})  # whose files hold what we made ourselves


def load_signing_seed(settings: Settings) -> bytes:
    """The 32 bytes of the Ed25519 key called `settings.signing_key_id`."""
    configured_key = settings.signing_ed25519_private_key_base64
    if configured_key is not None:
        return decode_seed(configured_key.get_secret_value())
    if (seed := load_named_seed(settings, settings.signing_key_id)) is not None:
        return seed
    return _load_or_create(settings.data_dir, "signing.key", SIGNING_KEY_VARIABLE, decode_seed)


def has_signing_key(settings: Settings) -> bool:
    """Whether there is one; loading it would create it."""
    path = locate_key_file(settings, settings.signing_key_id)
    return (
        settings.signing_ed25519_private_key_base64 is not None
        or (path is not None and path.exists())
        or (settings.data_dir / "keys" / "signing.key").exists()
    )


def load_pepper(settings: Settings) -> bytes:
    """The bytes mixed into every stored hash of an API key."""
    configured_pepper = settings.api_key_pepper_base64
    if configured_pepper is not None:
        return decode_pepper(configured_pepper.get_secret_value())
    return _load_or_create(settings.data_dir, "pepper.key", PEPPER_VARIABLE, decode_pepper)


def load_log_seed(settings: Settings) -> bytes | None:
    """The 32 bytes of the key of the transparency log; None in prod without one: then no log is kept."""
    configured_key = settings.tlog_ed25519_private_key_base64
    if configured_key is not None:
        return decode_seed(configured_key.get_secret_value())
    if settings.env == "prod":
        return None
    return _load_or_create(settings.data_dir, "log.key", LOG_KEY_VARIABLE, decode_seed)


def locate_log_folder(settings: Settings) -> Path:
    """Where the files of the transparency log are."""
    return settings.data_dir / "log" if settings.tlog_dir is None else settings.tlog_dir


def locate_public_url(settings: Settings) -> str | None:
    """Where others reach the API; None in prod if nobody has said where that is.

    Unset, it is the host of the transparency log, and outside prod the address that the API listens on.
    """
    host = settings.tlog_origin.split("/", 1)[0]
    if settings.public_url is not None:
        return settings.public_url
    if host.split(":")[0] != "localhost":
        return f"https://{host}"
    return None if settings.env == "prod" else f"http://127.0.0.1:{settings.http_port}"


def load_previous_pepper(settings: Settings) -> bytes | None:
    """The previous pepper, accepted until no key hash uses it."""
    return _decode_optional_pepper(settings.api_key_pepper_previous_base64)


def load_next_pepper(settings: Settings) -> bytes | None:
    """The next pepper, accepted because other processes may already use it."""
    return _decode_optional_pepper(settings.api_key_pepper_next_base64)


def load_stored_secret_keys(settings: Settings) -> tuple[bytes, ...]:
    """What the keys of stored secrets are derived from: first the one that encrypts, then those that only decrypt.

    Peppers are among them: without a key of its own, the pepper is the key, and a pepper is replaced too.
    """
    configured = (settings.stored_secrets_key_base64, settings.stored_secrets_key_previous_base64)
    keys = [_decode_optional_pepper(secret) for secret in configured]
    peppers = [load_pepper(settings), load_previous_pepper(settings), load_next_pepper(settings)]
    return tuple(key for key in (*keys, *peppers) if key is not None)


def has_pepper(settings: Settings) -> bool:
    """Whether there is one; loading it would create it."""
    return settings.api_key_pepper_base64 is not None or (settings.data_dir / "keys" / "pepper.key").exists()


def _decode_optional_pepper(secret: SecretStr | None) -> bytes | None:
    return None if secret is None else decode_pepper(secret.get_secret_value())


def locate_key_file(settings: Settings, key_id: str) -> Path | None:
    """Where the private key called `key_id` belongs; None if no key can have that name."""
    if not KEY_ID.fullmatch(key_id) or key_id in RESERVED_NAMES:
        return None
    return _locate_keys_dir(settings) / f"{key_id}.key"


def list_key_ids(settings: Settings) -> list[str]:
    """The ids of the signing keys that have a file."""
    folder = _locate_keys_dir(settings)
    try:
        names = [file.stem for file in folder.iterdir() if file.suffix == ".key"]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigMissing.for_setting(
            KEYS_DIR_VARIABLE, f"`{folder}` cannot be listed: {error.strerror}", fix="check its permissions"
        ) from error
    return sorted(name for name in names if locate_key_file(settings, name) is not None)


def _locate_keys_dir(settings: Settings) -> Path:
    return settings.data_dir / "keys" if settings.signing_keys_dir is None else settings.signing_keys_dir


def load_named_seed(settings: Settings, key_id: str) -> bytes | None:
    """The 32 bytes of the key called `key_id`, from its file; None where there is none."""
    path = locate_key_file(settings, key_id)
    if path is None:
        return None
    try:
        text = _read_key_file(path, KEYS_DIR_VARIABLE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigMissing.for_setting(
            KEYS_DIR_VARIABLE, f"`{path}` cannot be read: {error.strerror}", fix="check its permissions"
        ) from error
    try:
        return decode_seed(text)
    except ValueError as wrong:
        why = f"`{path}` {wrong}"
    raise ConfigMissing.for_setting(KEYS_DIR_VARIABLE, why, fix="put the file there that `bpc keygen` wrote")


def create_named_seed(settings: Settings, key_id: str) -> bytes:
    """A new key called `key_id`, as a file; if there is one of that name, that one."""
    path = locate_key_file(settings, key_id)
    if path is None:
        raise ConfigMissing.for_setting(
            KEYS_DIR_VARIABLE, f"`{key_id}` cannot be the name of a key", fix="choose another"
        )
    try:
        if settings.signing_keys_dir is None:
            prepare_data_dir(settings.data_dir)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _create_key_file(path)
    except OSError as error:
        raise ConfigMissing.for_setting(
            KEYS_DIR_VARIABLE, f"`{path}` cannot be written: {error.strerror}", fix="check its permissions"
        ) from error
    seed = load_named_seed(settings, key_id)
    if seed is None:
        raise ConfigMissing.for_setting(KEYS_DIR_VARIABLE, f"`{path}` is gone", fix="find out who removed it")
    return seed


def _load_or_create(data_dir: Path, file: str, variable: str, decode: Callable[[str], bytes]) -> bytes:
    folder = prepare_data_dir(data_dir) / "keys"
    path = folder / file
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _check_owner(folder, folder.stat(), variable, "700")
        if not path.exists():
            _create_key_file(path)
        text = _read_key_file(path, variable)
    except OSError as error:
        raise ConfigMissing.for_setting(
            variable, f"`{path}` cannot be used: {error.strerror}", fix=f"repair it, or set {variable}"
        ) from error
    try:
        return decode(text)
    except ValueError as wrong:
        why = f"`{path}` {wrong}"
    consequence = "signatures and key hashes made with it do not work with another one"
    raise ConfigMissing.for_setting(variable, why, fix=f"restore it from a backup: {consequence}")


def _create_key_file(path: Path) -> None:
    """Give `path` a fresh value unless somebody was faster."""
    secret = os.urandom(SEED_BYTES)  # noqa: TID251 - this is where the shell makes keys; nothing to replay
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(8).hex()}")  # noqa: TID251 - a free file name
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(b64encode(secret) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # Without this a power cut may forget the name, and with it a key that has already signed.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_key_file(path: Path, variable: str) -> str:
    with path.open("rb") as file:
        _check_owner(path, os.fstat(file.fileno()), variable, "600")
        return file.read(1024).decode("ascii", "replace").strip()


def _check_owner(path: Path, status: os.stat_result, variable: str, mode: str) -> None:
    if status.st_uid != os.geteuid():
        raise ConfigMissing.for_setting(
            variable, f"`{path}` belongs to another user", fix=f"run as its owner, or set {variable}"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigMissing.for_setting(
            variable, f"`{path}` can be read by other users", fix=f"chmod {mode} {shlex.quote(str(path))}"
        )
