"""`bpc keys`: the keys that passports are signed with: which there are, a new one, and none that signs for ever.

A key is registered under a name that never means another key. Its public half stays in the database for ever; its
private half is a file `<name>.key` that only its owner can read, or what BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64 says.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc import fresh
from bpc.cli.files import read_bytes, write_secret
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.session import operator_act, settings_for, signer_of
from bpc.cli.table import print_table
from bpc.core.errors import Conflict, Invalid
from bpc.core.signing import BadKey, PublicKey, Seed, checked_public_key, from_base64, public_key_of, seed_of, to_base64
from bpc.core.timestamps import format_time
from bpc.db import signing_keys
from bpc.db.database import Database
from bpc.db.opening import opened
from bpc.db.signing_keys import SigningKey
from bpc.settings import Settings, key_file, prepare

app = typer.Typer(
    help="List, add and retire signing keys.\n\n"
    "BPC_SIGNING_KEY_ID names the one that signs. To change it: add the new key, set BPC_SIGNING_KEY_ID to its name, "
    "restart the API and the workers, and when nothing is left to be signed by the old one, retire that.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

KEY_BYTES: Final = 32
LATELY: Final = timedelta(hours=1)
NAME: Final = "a name has 1 to 64 letters, digits, `.`, `_` and `-`, and is neither `signing` nor `pepper`"
ROTATION: Final = (
    "first `bpc keys add NEW --new`, then set BPC_SIGNING_KEY_ID=NEW and restart the API and the workers, then retire "
    "it; --force retires it all the same, and nothing is signed until BPC_SIGNING_KEY_ID names another"
)

KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's name.", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A registered key, and what this installation can do with it."""

    key: SigningKey
    at_hand: bool
    signs: bool


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List all signing keys, newest first.

    Tells which one signs, and of which the private half is at hand here.
    """
    settings = settings_for("keys")
    found = asyncio.run(_list(settings))
    if as_json:
        print_json([_as_json(each) for each in found])
        return
    print_table(
        ("ID", "STATUS", "SIGNS", "AT HAND", "CREATED", "RETIRED", "PUBLIC KEY"),
        [
            (
                each.key.key_id,
                each.key.status,
                "yes" if each.signs else "no",
                "yes" if each.at_hand else "no",
                format_time(each.key.created_at)[:10],
                None if each.key.retired_at is None else format_time(each.key.retired_at)[:10],
                to_base64(each.key.public_key),
            )
            for each in found
        ],
    )
    if not any(each.signs for each in found):
        say(f"none signs: BPC_SIGNING_KEY_ID names `{settings.signing_key_id}`", colour="yellow")


@app.command()
def add(
    key_id: KeyId,
    key: Annotated[
        str | None, typer.Option("--key", metavar="FILE", help="A private key, as `bpc keygen` writes it.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Make a new key.")] = False,
    public: Annotated[
        str | None, typer.Option("--public", metavar="BASE64", help="A public key whose private half is elsewhere.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Register a signing key.

    The private half goes into a file that only you can read, in BPC_SIGNING_KEYS_DIR or else in the data folder; the
    public half into the database, where it stays. It signs nothing until BPC_SIGNING_KEY_ID names it.

    \b
    bpc keys add passport-2028 --new
    bpc keys add passport-2028 --key passport-2028.key
    """
    settings = settings_for("keys")
    if (key is not None) + new + (public is not None) != 1:
        raise Invalid("say where the key comes from, once", fix="give one of --new, --key FILE and --public BASE64")
    file = key_file(settings, key_id)
    if file is None:
        raise Invalid(f"`{key_id}` cannot be the name of a key", fix=NAME)
    seed = _seed(key) if public is None else None
    half = public_key_of(seed) if seed is not None else _public(public or "")
    asyncio.run(_add(settings, key_id, half, seed, file))
    if as_json:
        print_json({"key_id": key_id, "public_key": to_base64(half), "file": None if seed is None else str(file)})
        return
    say(f"registered   {key_id}")
    say(f"public key   {to_base64(half)}")
    if seed is not None:
        say(f"private key  {file} (keep it secret, keep a copy)")
    say(f"to sign with it, set BPC_SIGNING_KEY_ID={key_id} and restart the API and the workers")


@app.command()
def retire(
    key_id: KeyId,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it is the one that signs, or versions wait for it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Have a key sign nothing more, for good.

    What it signed stays valid and is checked against its public half for ever. What was compiled for it and is not
    signed yet could not be signed any more: while there is such a version, of any tenant, the key is not retired.
    """
    settings = settings_for("keys")
    if key_id == settings.signing_key_id and not force:
        raise Conflict(f"`{key_id}` is the key that signs: BPC_SIGNING_KEY_ID names it", fix=ROTATION)
    lately = asyncio.run(_retire(settings, key_id, force=force))
    if as_json:
        print_json({"key_id": key_id, "status": "RETIRED", "asked_for_in_the_last_hour": lately})
        return
    say(f"`{key_id}` is retired; what it signed stays valid")
    if lately:
        say(
            f"in the last hour it was named for {lately:,} version(s): if an API still runs with BPC_SIGNING_KEY_ID="
            f"{key_id}, what it is asked for will not be signed; restart it with the new name",
            colour="yellow",
        )


async def _list(settings: Settings) -> Sequence[Listed]:
    async with opened(settings) as database, database.system() as conn:
        keys = await signing_keys.every(conn)
    signer = signer_of(settings)
    found = []
    for key in keys:
        private = signer(key.key_id)
        at_hand = private is not None and private.public_key == key.public_key
        signs = at_hand and key.key_id == settings.signing_key_id and key.status == "ACTIVE"
        found.append(Listed(key=key, at_hand=at_hand, signs=signs))
    return found


async def _add(settings: Settings, key_id: str, public: PublicKey, seed: Seed | None, file: Path) -> None:
    async with opened(settings) as database:
        known = await _known(database)
        _check(known, key_id, public, None if seed is None else file)
        if seed is not None:
            _keep_at_hand(settings, known)
            _write(settings, file, seed)
        await signing_keys.register(database, key_id, public, act=operator_act())


def _check(known: Sequence[SigningKey], key_id: str, public: PublicKey, file: Path | None) -> None:
    """A name never means another key, and a key has one name. A registered key may get the file that it lacks."""
    for key in known:
        if key.key_id == key_id and key.public_key != public:
            raise Conflict(f"`{key_id}` is the name of another key, for ever", fix="give the new key a name of its own")
        if key.public_key == public and key.key_id != key_id:
            raise Conflict(f"this key is registered already, as `{key.key_id}`", fix="use it under that name")
        if key.key_id == key_id and (file is None or file.exists() or key.status == "RETIRED"):
            raise Conflict(f"`{key_id}` is registered already", fix="`bpc keys list` shows it")


def _keep_at_hand(settings: Settings, known: Sequence[SigningKey]) -> None:
    """The key that was made here in the beginning has no file under its name. It gets one before another signs."""
    own = key_file(settings, settings.signing_key_id)
    if settings.signing_ed25519_private_key_base64 is not None or own is None or own.exists():
        return
    made = settings.data_dir / "keys" / "signing.key"
    if made.exists() and settings.signing_key_id in {key.key_id for key in known}:
        _write(settings, own, _seed(str(made)))


def _write(settings: Settings, file: Path, seed: Seed) -> None:
    if file.exists():
        if _seed(str(file)) == seed:  # somebody was interrupted, or put it there by hand
            return
        raise Conflict(f"`{file}` holds another key", fix="move it away, or register it with --key")
    if settings.signing_keys_dir is None:
        prepare(settings.data_dir)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_secret(file, to_base64(seed))


async def _retire(settings: Settings, key_id: str, *, force: bool) -> int:
    """For how many versions the key was named in the last hour."""
    act = operator_act()
    async with opened(settings) as database:
        use = await signing_keys.use_of(database, key_id, since=act.at - LATELY)
        if use.waiting and not force:
            raise Conflict(
                f"`{key_id}` has {sum(use.waiting.values()):,} version(s) still to sign, of {_listed(use.waiting)}",
                fix="wait until they are signed, or retry what failed: `bpc jobs redrive --tenant SLUG --type "
                "SIGN_PASSPORT`; --force retires it all the same, and they are never signed",
                details={"waiting": dict(use.waiting)},
            )
        await signing_keys.retire(database, key_id, act=act)
    return use.asked_for


def _listed(slugs: Iterable[str]) -> str:
    first = [f"`{slug}`" for slug in slugs]
    return ", ".join(first[:5]) + (f" and {len(first) - 5:,} more" if len(first) > 5 else "")


async def _known(database: Database) -> Sequence[SigningKey]:
    async with database.system() as conn:
        return await signing_keys.every(conn)


def _seed(file: str | None) -> Seed:
    """The private key in a file; without one, a new key."""
    if file is None:
        return Seed(fresh.entropy(KEY_BYTES))
    try:
        return seed_of(from_base64(read_bytes(file).decode("ascii", "replace").strip()))
    except BadKey as refused:
        raise Invalid(f"`{file}`: {refused.says}", fix="give the file that `bpc keygen` wrote") from None


def _public(text: str) -> PublicKey:
    try:
        return checked_public_key(from_base64(text))
    except BadKey as refused:
        raise Invalid(f"--public: {refused.says}", fix="give the public key as `bpc keygen` printed it") from None


def _as_json(listed: Listed) -> dict[str, object]:
    key = listed.key
    return {
        "key_id": key.key_id,
        "public_key": to_base64(key.public_key),
        "status": key.status,
        "created_at": format_time(key.created_at),
        "retired_at": None if key.retired_at is None else format_time(key.retired_at),
        "at_hand": listed.at_hand,
        "signs": listed.signs,
    }
