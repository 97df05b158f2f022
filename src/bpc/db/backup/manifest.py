"""The manifest of a backup: what is in it. A file that is missing, was added, or differs in one byte is named.

write(folder, …) ─► manifest.json, manifest.sha256        check(folder) ─► Manifest, or BackupDamaged
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from bpc.core import canon
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.timestamps import format_time, parse_time

FORM: Final = "BPC-BACKUP-1"
MANIFEST: Final = "manifest.json"
SEAL: Final = "manifest.sha256"
NAME: Final = re.compile(r"bpc-[0-9]{8}T[0-9]{6}Z")
PIECE: Final = 1 << 20
MOST_NAMED: Final = 5

Kind = Literal["base", "dump"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup holds. `files` are paths below its folder, each with its size and SHA-256 in hex."""

    kind: Kind
    taken_at: datetime
    build: str
    server_version: str
    database: str
    files: Mapping[str, tuple[int, str]]

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.files.values())


class BackupDamaged(Conflict):
    """The files are not those that were written."""

    def __init__(self, folder: Path, problems: list[str]) -> None:
        more = len(problems) - MOST_NAMED
        named = "; ".join(problems[:MOST_NAMED]) + (f"; and {more:,} more" if more > 0 else "")
        super().__init__(
            f"the backup `{folder}` is damaged: {named}",
            fix="use another backup; nothing was restored from this one",
            details={"problems": problems[:100], "problems_total": len(problems)},
        )


def chosen(folder: Path) -> Path:
    """The backup that is meant: `folder` itself, or the newest of those in it."""
    if (folder / MANIFEST).exists() or not folder.is_dir():
        return folder
    inside = sorted(entry for entry in folder.iterdir() if NAME.fullmatch(entry.name) and (entry / MANIFEST).exists())
    return inside[-1] if inside else folder


def write(folder: Path, *, kind: Kind, taken_at: datetime, build: str, server_version: str, database: str) -> Manifest:
    """List every file below `folder` and seal the list."""
    found = {path: _measured(folder / path) for path in _below(folder)}
    made = Manifest(
        kind=kind, taken_at=taken_at, build=build, server_version=server_version, database=database, files=found
    )
    data = canon.encode(_as_json(made))
    _durable(folder / MANIFEST, data)
    _durable(folder / SEAL, f"{hashlib.sha256(data).hexdigest()}\n".encode())
    return made


def check(folder: Path) -> Manifest:
    """The manifest of a backup every file of which is as it was written."""
    found = read(folder)
    there = set(_below(folder)) - {MANIFEST, SEAL}
    problems = [f"`{path}` is missing" for path in sorted(found.files.keys() - there)]
    problems += [f"`{path}` does not belong to it" for path in sorted(there - found.files.keys())]
    for path in sorted(there & found.files.keys()):
        if _measured(folder / path) != found.files[path]:
            problems.append(f"`{path}` was changed")
    if problems:
        raise BackupDamaged(folder, problems)
    return found


def read(folder: Path) -> Manifest:
    """The manifest, which is whole; the files are not looked at."""
    try:
        data, seal = (folder / MANIFEST).read_bytes(), (folder / SEAL).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"`{folder}` is not a backup", fix="name a folder that `bpc backup` made") from None
    except OSError as failed:
        raise Invalid(f"`{folder}` cannot be read: {failed.strerror}", fix="check its rights") from failed
    if seal != f"{hashlib.sha256(data).hexdigest()}\n".encode():
        raise BackupDamaged(folder, ["its manifest was changed"])
    value: Any = canon.decode(data)
    if value["backup_version"] != FORM:
        raise Invalid(f"`{folder}` is a backup of another form, {value['backup_version']}", fix="upgrade bpc")
    return Manifest(
        kind=value["kind"],
        taken_at=parse_time(value["taken_at"]),
        build=value["build"],
        server_version=value["server_version"],
        database=value["database"],
        files={path: (entry["bytes"], entry["sha256"]) for path, entry in value["files"].items()},
    )


def _as_json(manifest: Manifest) -> dict[str, canon.Json]:
    return {
        "backup_version": FORM,
        "kind": manifest.kind,
        "taken_at": format_time(manifest.taken_at),
        "build": manifest.build,
        "server_version": manifest.server_version,
        "database": manifest.database,
        "files": {path: {"bytes": size, "sha256": digest} for path, (size, digest) in manifest.files.items()},
    }


def _below(folder: Path) -> Iterator[str]:
    """Every file, as a path from `folder`. Links are files of their own: nothing outside belongs to a backup."""
    for where, folders, names in os.walk(folder):
        linked = [name for name in folders if Path(where, name).is_symlink()]
        for name in (*names, *linked):
            yield str(Path(where, name).relative_to(folder))


def _measured(path: Path) -> tuple[int, str]:
    if path.is_symlink():
        return 0, hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()


def _durable(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
