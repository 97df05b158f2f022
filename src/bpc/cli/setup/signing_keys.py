"""`bpc keys` and `bpc keygen`: list, create, add, retire and generate the keys that sign passports.

A key is registered under a name that never means another key. Its public key stays in the database; its
private key is a file `<name>.key` that only its owner can read, or the value of BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bpc.cli.run.signer import use_signer
from bpc.cli.support.arguments import TenantOption, command_group
from bpc.cli.support.output import (
    AsJson,
    format_count,
    format_day,
    format_yes_no,
    print_json,
    print_line,
    print_result,
    print_table,
    read_bytes,
    write_secret,
)
from bpc.cli.support.session import load_settings_and_logs, make_operator_act
from bpc.core.audit.signing import (
    BadKey,
    PublicKey,
    Seed,
    Signer,
    derive_public_key,
    from_base64,
    parse_public_key,
    parse_seed,
    to_base64,
)
from bpc.core.errors import Conflict, Invalid, UnknownResource
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import locate_key_file, prepare_data_dir
from bpc.storage.access.tenants_and_actors import TenantRow, find_tenant
from bpc.storage.audit import signing_keys, tenant_keys
from bpc.storage.audit.signing_keys import SigningKeyRow
from bpc.storage.database import Database, open_migrated_database

keys_app = command_group(
    "List, create, add and retire signing keys.\n\n"
    "A key of a tenant signs for that tenant as soon as it exists. BPC_SIGNING_KEY_ID names the key that signs for "
    "tenants without one. To change that one: add the new key, set BPC_SIGNING_KEY_ID to its name, restart the API and "
    "the workers. When the old key has nothing left to sign, retire it."
)

KEY_BYTES: Final = 32
RECENT_USE: Final = timedelta(hours=1)
MAX_TENANTS_NAMED: Final = 5
KEY_NAME_RULE: Final = "a name has 1 to 64 letters, digits, `.`, `_` and `-`, and is neither `signing` nor `pepper`"
ROTATION_STEPS: Final = (
    "first `bpc keys add NEW --new`, then set BPC_SIGNING_KEY_ID=NEW and restart the API and the workers, then retire "
    "it; --force retires it anyway, and nothing is signed until BPC_SIGNING_KEY_ID names another key"
)

KeyIdArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's name.", show_default=False)]


@keys_app.command("list")
async def list_keys(as_json: AsJson = False) -> None:
    """List all signing keys, newest first.

    Shows which key signs and which private keys are available on this machine.
    """
    settings = load_settings_and_logs("keys")
    async with open_migrated_database(settings) as database, database.system() as conn:
        keys = await signing_keys.list_all_keys(conn)
    private_keys = KeyRing.from_settings(settings).load()
    items = [_key_to_json(key, private_keys.find(key.key_id), settings.signing_key_id) for key in keys]
    if as_json:
        print_json(items)
        return
    rows = [
        (
            key.key_id,
            key.tenant or "",
            key.status,
            format_yes_no(entry["signs"]),
            format_yes_no(entry["at_hand"]),
            format_day(key.created_at),
            format_day(key.retired_at),
            entry["public_key"],
        )
        for key, entry in zip(keys, items, strict=True)
    ]
    print_table(("ID", "TENANT", "STATUS", "SIGNS", "AVAILABLE", "CREATED", "RETIRED", "PUBLIC KEY"), rows)
    if not any(entry["signs"] for entry in items):
        print_line(f"no key can sign: BPC_SIGNING_KEY_ID is `{settings.signing_key_id}`", colour="yellow")


def _key_to_json(key: SigningKeyRow, private: Signer | None, signing_key_id: str) -> dict[str, Any]:
    """A registered key, whether its private key is on this machine, and whether it signs."""
    at_hand = private is not None and private.public_key == key.public_key
    signs = at_hand and (key.key_id == signing_key_id or key.tenant is not None) and key.status == "ACTIVE"
    return {**asdict(key), "public_key": to_base64(key.public_key), "at_hand": at_hand, "signs": signs}


@keys_app.command()
async def create(
    key_id: KeyIdArgument,
    tenant: TenantOption,
    valid_until: Annotated[
        datetime | None,
        typer.Option("--valid-until", metavar="TIME", help="It signs until then [default: until it is retired]."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a signing key of a tenant.

    From now on it signs what the tenant compiles, and no other key does. Versions that wait for another key are still
    signed by that one.

    \b
    bpc keys create acme-2027 --tenant acme
    """
    settings = load_settings_and_logs("keys")
    if locate_key_file(settings, key_id) is None:
        raise Invalid(f"`{key_id}` cannot be the name of a key", fix=KEY_NAME_RULE)
    end = None if valid_until is None else _in_utc(valid_until)
    async with open_migrated_database(settings) as database:
        owner = await find_tenant(database, tenant)
        async with database.system(owner.tenant_id) as conn:
            if key_id in {key.key_id for key in await signing_keys.list_all_keys(conn)}:
                raise Conflict(f"`{key_id}` is already the name of a key", fix="choose another name for the new key")
            async with use_signer(settings) as signer:
                public_key = await signer.create_key(key_id, str(owner.tenant_id))
            act = make_operator_act()
            await tenant_keys.create_tenant_key(conn, owner, key_id, public_key, act=act, valid_until=end)
    print_result(
        {"key_id": key_id, "tenant": tenant, "public_key": to_base64(public_key), "valid_until": end},
        f"created      {key_id}, which signs for the tenant {tenant} from now on",
        f"public key   {to_base64(public_key)}",
        f"published    /.well-known/bpc-keys/{tenant}.json",
        as_json=as_json,
    )


@keys_app.command("report-compromise")
async def report_compromise(
    key_id: KeyIdArgument,
    since: Annotated[
        datetime,
        typer.Option("--since", metavar="TIME", help="The earliest time at which others may have had the key, in UTC."),
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What happened.")],
    as_json: AsJson = False,
) -> None:
    """Report that others have had a key. Nobody can take that back.

    It signs nothing more. What it signed counts only if the transparency log shows it before that time. A second report
    may give an earlier time.

    \b
    bpc keys report-compromise acme-2027 --since 2027-02-18T00:00:00 --reason "A backup was stolen."
    """
    settings = load_settings_and_logs("keys")
    moment, act = _in_utc(since), make_operator_act()
    async with open_migrated_database(settings) as database:
        owner = await _find_owner(database, key_id)
        if owner is None:
            await tenant_keys.report_installation_compromise(database, key_id, since=moment, reason=reason, act=act)
        else:
            async with database.system(owner.tenant_id) as conn:
                await tenant_keys.report_compromise(conn, owner, key_id, since=moment, reason=reason, act=act)
    print_result(
        {"key_id": key_id, "status": "COMPROMISED", "compromised_since": moment},
        f"`{key_id}` is compromised since {format_time(moment)}",
        "create a new key, and publish versions again whose signature the log does not show before that time",
        as_json=as_json,
    )


def _in_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


async def _find_owner(database: Database, key_id: str) -> TenantRow | None:
    """The tenant of a key; None if it is the installation's. Raises `UnknownResource`."""
    async with database.system() as conn:
        key = next((key for key in await signing_keys.list_all_keys(conn) if key.key_id == key_id), None)
    if key is None:
        raise UnknownResource("signing key", key_id)
    return None if key.tenant is None else await find_tenant(database, key.tenant)


@keys_app.command()
def add(
    key_id: KeyIdArgument,
    key: Annotated[
        str | None, typer.Option("--key", metavar="FILE", help="A private key, as `bpc keygen` writes it.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Generate a new key.")] = False,
    public: Annotated[
        str | None, typer.Option("--public", metavar="BASE64", help="A public key; its private key is kept elsewhere.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="SLUG", help="The tenant it signs for [default: those without a key]."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Register a signing key.

    The private key goes into a file that only you can read, in BPC_SIGNING_KEYS_DIR or else in the data folder. The
    public key goes into the database and stays there. A key of a tenant signs from now on; one of the installation
    signs nothing until BPC_SIGNING_KEY_ID names it.

    \b
    bpc keys add passport-2028 --new
    bpc keys add passport-2028 --key passport-2028.key
    bpc keys add acme-2028 --key acme-2028.key --tenant acme
    """
    settings = load_settings_and_logs("keys")
    if (key is not None) + new + (public is not None) != 1:
        raise Invalid(
            "the source of the key is missing or ambiguous", fix="use one of --new, --key FILE and --public BASE64"
        )
    file = locate_key_file(settings, key_id)
    if file is None:
        raise Invalid(f"`{key_id}` cannot be the name of a key", fix=KEY_NAME_RULE)
    seed = _read_or_make_seed(key) if public is None else None
    public_key = derive_public_key(seed) if seed is not None else _parse_public_key(public or "")
    asyncio.run(_register_key(settings, key_id, public_key, seed, file, tenant))
    print_result(
        {"key_id": key_id, "public_key": to_base64(public_key), "file": None if seed is None else file},
        f"registered   {key_id}",
        f"public key   {to_base64(public_key)}",
        *([] if seed is None else [f"private key  {file} (keep it secret, keep a copy)"]),
        f"to sign with it, set BPC_SIGNING_KEY_ID={key_id} and restart the API and the workers"
        if tenant is None
        else f"it signs for the tenant {tenant} from now on",
        as_json=as_json,
    )


@keys_app.command()
async def retire(
    key_id: KeyIdArgument,
    force: Annotated[
        bool,
        typer.Option("--force", help="Retire it even if it is the current signing key or versions still wait for it."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Retire a key permanently: it will sign nothing more.

    What it signed stays valid. Versions compiled for it but not signed yet could never be signed; so while one exists,
    in any tenant, the key is not retired.
    """
    settings = load_settings_and_logs("keys")
    if key_id == settings.signing_key_id and not force:
        raise Conflict(f"`{key_id}` is the key that signs: BPC_SIGNING_KEY_ID names it", fix=ROTATION_STEPS)
    act = make_operator_act()
    async with open_migrated_database(settings) as database:
        use = await signing_keys.count_key_use(database, key_id, since=act.at - RECENT_USE)
        if use.waiting and not force:
            raise _still_needed_error(key_id, use.waiting)
        owner = await _find_owner(database, key_id)
        if owner is None:
            await signing_keys.retire_key(database, key_id, act=act)
        else:
            async with database.system(owner.tenant_id) as conn:
                await tenant_keys.retire_tenant_key(conn, owner, key_id, act=act)
    print_result(
        {"key_id": key_id, "status": "RETIRED", "asked_for_in_the_last_hour": use.requested},
        f"`{key_id}` is retired; what it signed stays valid",
        as_json=as_json,
    )
    if use.requested and not as_json:
        print_line(
            f"in the last hour {format_count(use.requested, 'version')} named this key: an API that still runs with "
            f"BPC_SIGNING_KEY_ID={key_id} creates versions that cannot be signed; restart it with the new key",
            colour="yellow",
        )


async def _register_key(
    settings: Settings, key_id: str, public: PublicKey, seed: Seed | None, file: Path, tenant: str | None
) -> None:
    async with open_migrated_database(settings) as database:
        owner = None if tenant is None else await find_tenant(database, tenant)
        async with database.system() as conn:
            known_keys = await signing_keys.list_all_keys(conn)
        _refuse_conflicts(known_keys, key_id, public, None if seed is None else file)
        if seed is not None:
            _write_own_key_file(settings, known_keys)
            _write_key_file(settings, file, seed)
        if owner is None:
            await signing_keys.register_key(database, key_id, public, act=make_operator_act())
        elif key_id not in {key.key_id for key in known_keys}:
            if seed is not None:
                async with use_signer(settings) as signer:  # from now on it signs for this tenant alone
                    await signer.create_key(key_id, str(owner.tenant_id))
            async with database.system(owner.tenant_id) as conn:
                await tenant_keys.create_tenant_key(conn, owner, key_id, public, act=make_operator_act())


def _refuse_conflicts(known_keys: Sequence[SigningKeyRow], key_id: str, public: PublicKey, file: Path | None) -> None:
    """A name never means another key, and a key has one name. A registered key may get its missing file."""
    for key in known_keys:
        if key.key_id == key_id and key.public_key != public:
            raise Conflict(f"`{key_id}` is already the name of another key", fix="choose another name for the new key")
        if key.public_key == public and key.key_id != key_id:
            raise Conflict(f"this key is registered already, as `{key.key_id}`", fix="use it under that name")
        if key.key_id == key_id and (file is None or file.exists() or key.status != "ACTIVE"):
            raise Conflict(f"`{key_id}` is registered already", fix="`bpc keys list` shows it")


def _write_own_key_file(settings: Settings, known_keys: Sequence[SigningKeyRow]) -> None:
    """Before another key signs, give the generated first key a file under its own name."""
    own = locate_key_file(settings, settings.signing_key_id)
    if settings.signing_ed25519_private_key_base64 is not None or own is None or own.exists():
        return
    key_file = settings.data_dir / "keys" / "signing.key"
    if key_file.exists() and settings.signing_key_id in {key.key_id for key in known_keys}:
        _write_key_file(settings, own, _read_or_make_seed(str(key_file)))


def _write_key_file(settings: Settings, file: Path, seed: Seed) -> None:
    if file.exists():
        if _read_or_make_seed(str(file)) == seed:  # an earlier run was interrupted, or a person put it there
            return
        raise Conflict(f"`{file}` holds another key", fix="move it away, or register it with --key")
    if settings.signing_keys_dir is None:
        prepare_data_dir(settings.data_dir)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_secret(file, to_base64(seed))


def _still_needed_error(key_id: str, waiting: Mapping[str, int]) -> Conflict:
    """The key still has to sign versions of these tenants."""
    slugs = [f"`{slug}`" for slug in waiting]
    more = f" and {len(slugs) - MAX_TENANTS_NAMED:,} more" if len(slugs) > MAX_TENANTS_NAMED else ""
    return Conflict(
        f"`{key_id}` still has to sign {format_count(sum(waiting.values()), 'version')} of "
        f"{', '.join(slugs[:MAX_TENANTS_NAMED])}{more}",
        fix="wait until they are signed, or retry what failed: `bpc jobs redrive --tenant SLUG --type "
        "SIGN_PASSPORT`; --force retires it anyway, and they are never signed",
        details={"waiting": dict(waiting)},
    )


def _read_or_make_seed(file: str | None) -> Seed:
    """The private key in a file; a new key without a file."""
    if file is None:
        return Seed(clock.random_bytes(KEY_BYTES))
    try:
        return parse_seed(from_base64(read_bytes(file).decode("ascii", "replace").strip()))
    except BadKey as refusal:
        raise Invalid(f"`{file}`: {refusal.says}", fix="use the file that `bpc keygen` wrote") from None


def _parse_public_key(text: str) -> PublicKey:
    try:
        return parse_public_key(from_base64(text))
    except BadKey as refusal:
        raise Invalid(f"--public: {refusal.says}", fix="give the public key as `bpc keygen` printed it") from None


def generate_key(
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="New file for the private key (base64, mode 0600).")
    ],
    as_json: AsJson = False,
) -> None:
    """Generate a new signing key.

    Writes a new Ed25519 private key to a file that only you can read and prints the public key. Never overwrites a
    file.

    \b
    bpc keygen --out passport-2027.key
    """
    seed = _read_or_make_seed(None)
    write_secret(out, to_base64(seed))
    public = to_base64(derive_public_key(seed))
    print_result(
        {"file": out, "public_key": public},
        f"private key  {out} (keep it secret, keep a copy)",
        f"public key   {public}",
        "to sign with it, set BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64 to the file's content and BPC_SIGNING_KEY_ID",
        "to a name of its own",
        as_json=as_json,
    )
