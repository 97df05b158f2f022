"""Folders of rule packages: each is read with the packages it extends and imports. Some are shipped with bpc.

    shipped:eu-battery ─┐
    a folder ───────────┴─ locate_package ── read_folder ──► PackageFiles, in the order of linking

A shipped package is a folder inside the installed program. The repository shows it as `rules/NAME`. A package that
extends or imports one names its release; nothing is fetched.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import bpc
from bpc.cli.support.output import read_bytes
from bpc.core.errors import Invalid
from bpc.core.language.linking import PackageFiles
from bpc.core.language.manifest import MANIFEST, Manifest, PackageReference, read_manifest
from bpc.core.language.needed_packages import gather_packages

SHIPPED_RULES: Final = Path(bpc.__file__).parent / "rules"
SHIPPED: Final = "shipped:"


class ShippedPackage(NamedTuple):
    name: str
    release: str
    folder: Path


def locate_package(rules: str, *, shipped_folder: Path = SHIPPED_RULES) -> Path | None:
    """The folder of the package that an argument names; None if it names a file or standard input."""
    if rules.startswith(SHIPPED):
        name, _, release = rules.removeprefix(SHIPPED).partition("@")
        return find_shipped_package(name, release or None, shipped_folder=shipped_folder).folder
    return Path(rules) if rules != "-" and Path(rules).is_dir() else None


def list_shipped_packages(shipped_folder: Path = SHIPPED_RULES) -> list[ShippedPackage]:
    """The packages in `shipped_folder`, by name, and of one name the oldest release first."""
    manifests = {file.parent: read_folder_manifest(file.parent) for file in shipped_folder.glob(f"*/{MANIFEST}")}
    packages = [ShippedPackage(manifest.name, manifest.release, folder) for folder, manifest in manifests.items()]
    return sorted(packages, key=lambda package: (package.name, _split_numbers(package.release)))


def find_shipped_package(name: str, release: str | None, *, shipped_folder: Path = SHIPPED_RULES) -> ShippedPackage:
    """The package with this name and, if several releases are shipped, this release."""
    packages = list_shipped_packages(shipped_folder)
    candidates = [package for package in packages if package.name == name and release in {None, package.release}]
    if len(candidates) == 1:
        return candidates[0]
    wanted_package = f"`{name}`" if release is None else f"`{name}` {release}"
    if candidates:
        releases = " or ".join(f"`{SHIPPED}{name}@{package.release}`" for package in candidates)
        raise Invalid(f"several releases of {wanted_package} are shipped", fix=f"write {releases}")
    names = ", ".join(f"`{package.name}` {package.release}" for package in packages) or "none"
    fix = f'shipped with bpc {bpc.__version__}: {names}. To name a package of yours, say its folder: … at "../{name}"'
    raise Invalid(f"{wanted_package} is not shipped with bpc", fix=fix)


def _split_numbers(release: str) -> list[tuple[int, str]]:
    """So that 2027.10 comes after 2027.9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"[0-9]+|[^0-9]+", release)]


def read_folder_manifest(folder: Path) -> Manifest:
    return read_manifest(str(folder / MANIFEST), read_bytes(str(folder / MANIFEST)))


def read_folder(folder: Path, *, shipped_folder: Path = SHIPPED_RULES) -> list[PackageFiles]:
    """A package and all that it extends and imports, in the order of linking."""

    def read(place: Path) -> PackageFiles:
        manifest = read_folder_manifest(place)
        return PackageFiles(manifest, {path: read_bytes(str(place / path)) for path in list_package_files(place)})

    def locate(place: Path, reference: PackageReference) -> Path:
        if reference.folder is not None:
            return (place / reference.folder).resolve()
        return find_shipped_package(reference.name, reference.release, shipped_folder=shipped_folder).folder

    return [placed.package for placed in gather_packages(folder, read, locate)]


def list_package_files(folder: Path) -> Sequence[str]:
    """The rule files of a package, sorted, without its manifest and without hidden ones."""
    paths = [file.relative_to(folder) for file in folder.rglob("*.bpc") if file.is_file()]
    visible = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    return sorted(path.as_posix() for path in visible if path.as_posix() != MANIFEST)
