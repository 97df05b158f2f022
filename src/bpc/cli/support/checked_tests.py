"""Tests that were checked before: a folder of digests, so that the same tests are not checked in every run.

A package has far more tests than rules. A file of this folder is named after the digest of tests in which there was
nothing to report, and of all they depend on, this program included; its text is the number of their examples. A folder
that cannot be read or written is no mistake: then the tests are checked each time.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import bpc
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.package import CheckedPackage, PackageTexts, check_package, read_package

# Fewer bytes of tests are checked faster than looked up.
MIN_BYTES: Final = 65_536
MAX_FILES: Final = 100


def check_texts(texts: PackageTexts) -> CheckedPackage:
    """Check a package; large tests that were checked before are not checked again."""
    if len(texts.tests) < MIN_BYTES:
        return read_package(texts.rules, texts.tests, name=texts.rules_name, tests_name=texts.tests_name)
    return check_package(texts, DigestFolder(_locate_folder()))


def _locate_folder() -> Path:
    """The user's folder for what a program can do without, as other programs of this system choose it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "bpc", "checked-tests")


class DigestFolder:
    """Digests of tests that were checked by exactly this program."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = _describe_program()

    def find(self, digest: str) -> int | None:
        with suppress(OSError, ValueError):
            return int(self._locate(digest).read_text())
        return None

    def remember(self, digest: str, examples: int) -> None:
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._locate(digest).write_text(str(examples))
            files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime)
            for file in files[:-MAX_FILES]:
                file.unlink(missing_ok=True)

    def _locate(self, digest: str) -> Path:
        return self._folder / to_hex(sha256(f"{self._program} {digest}".encode()))


def _describe_program() -> str:
    """What the checker is made of: another version, or one that is being changed, checks everything again."""
    core = Path(bpc.__file__).parent / "core"
    files = sorted((*core.glob("language/**/*.py"), *core.glob("facts/*.py")))
    stats = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return to_hex(sha256(f"{bpc.__version__} {stats}".encode()))
