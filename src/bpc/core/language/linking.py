"""Linking: the files of a package in, one text out; and back, from a place in the text to the file it comes from.

Pure. A package is a folder with a manifest (`manifest.py`). All other files of the folder are its rules, which see each
other; those in its folder `tests` are its tests. The text is what is stored, compiled and verified: nothing is looked
up later. Each file stands in it byte for byte, below a line that names package, release, path, hash and length. What is
imported stands first, each package after those that it imports; then what a package extends, then the package itself.
Of an imported package the rules are linked, and not its tests. A line for each import says who imports what: there the
checker reads what a file may use (`checking/imports.py`).

    PackageFiles, in this order ── link_package ──► LinkedTexts(rules, tests) ── recognise_files ──► LinkedSource
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.manifest import Manifest, PackageReference
from bpc.core.language.source import Source, Span

TESTS_FOLDER: Final = "tests/"

_START: Final = "language 2;\n"
_HEADER: Final = re.compile(
    r'-- file "(?P<package>[A-Za-z0-9._-]+)" "(?P<release>[A-Za-z0-9._-]+)" "(?P<path>[A-Za-z0-9._/-]+)"'
    r" sha256:(?P<sha256>[0-9a-f]{64}) bytes:(?P<bytes>[0-9]{1,7})\n"
)
_IMPORT: Final = re.compile(
    r'-- import "(?P<package>[A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+" "(?P<imported>[A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+"\n'
)
_PATH: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*\.bpc")


# Linking


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """A package as its folder has it: its manifest, and the bytes of its files by path."""

    manifest: Manifest
    files: Mapping[str, bytes]

    def __post_init__(self) -> None:
        for path in self.files:
            if not _PATH.fullmatch(path):
                fix = "paths have letters, digits, `_`, `-` and `.`, and end with `.bpc`"
                raise Invalid(f"the file `{path[:200]}` of `{self.manifest.name}` cannot be linked", fix=fix)


class LinkedTexts(NamedTuple):
    """The rules and the tests of a package, each one text."""

    rules: bytes
    tests: bytes


def link_package(packages: Sequence[PackageFiles]) -> LinkedTexts:
    """Link a package (the last) with those it extends and imports, in the order of linking."""
    imported_names = {reference.name for package in packages for reference in package.manifest.imports}
    _check_parents([package for package in packages if package.manifest.name not in imported_names])
    _check_imports(packages)
    rules: list[bytes] = []
    tests: list[bytes] = []
    for package in packages:
        is_imported = package.manifest.name in imported_names
        # Sorted by code point, which is the same everywhere.
        for path in sorted(package.files):
            is_test = path.startswith(TESTS_FOLDER)
            if not (is_test and is_imported):
                (tests if is_test else rules).append(_write_file(package.manifest, path, package.files[path]))
    start = _START.encode()
    imports = [_write_import(package.manifest, each) for package in packages for each in package.manifest.imports]
    return LinkedTexts(b"".join([start, *imports, *rules]), b"".join([start, *tests]) if tests else b"")


def _check_parents(packages: Sequence[PackageFiles]) -> None:
    names = [package.manifest.name for package in packages]
    if len(set(names)) < len(names):
        raise Invalid(f"`{names[-1]}` extends itself: {', '.join(f'`{name}`' for name in names)}")
    for parent, package in pairwise(packages):
        require_stated(package.manifest, "extends", package.manifest.extends, parent.manifest)


def _check_imports(packages: Sequence[PackageFiles]) -> None:
    """Each package stands after those it imports, in the releases that it names."""
    manifests: dict[str, Manifest] = {}
    for package in packages:
        for reference in package.manifest.imports:
            if reference.name not in manifests:
                raise Invalid(f"`{package.manifest.name}` imports {reference}, which is not linked before it")
            require_stated(package.manifest, "imports", reference, manifests[reference.name])
        manifests[package.manifest.name] = package.manifest


def require_stated(manifest: Manifest, verb: str, reference: PackageReference | None, actual: Manifest) -> None:
    """Refuse a package that another one names in another release, or by another name."""
    if reference is None or (reference.name, reference.release) != (actual.name, actual.release):
        raise Invalid(
            f"`{manifest.name}` {verb} {reference or 'nothing'}, and the folder has {actual}",
            fix="name the release that is there, or bring the one that is named",
        )


def _write_import(manifest: Manifest, reference: PackageReference) -> bytes:
    return f'-- import "{manifest.name}" "{manifest.release}" "{reference.name}" "{reference.release}"\n'.encode()


def _write_file(manifest: Manifest, path: str, data: bytes) -> bytes:
    """A file below its header. A last line without its end gets one, also for the hash."""
    content = data if not data or data.endswith(b"\n") else data + b"\n"
    header = (
        f'-- file "{manifest.name}" "{manifest.release}" "{path}" sha256:{to_hex(sha256(content))}'
        f" bytes:{len(content)}\n"
    )
    return header.encode() + content


# Back to the files


class LinkedFile(NamedTuple):
    """A file in a linked text, and where it starts there."""

    package: str
    release: str
    path: str
    start: int
    source: Source


class LinkedSource(Source):
    """The text of a package of several files. A place in it is one in a file.

    `imports` are the names of the packages that each package imports.
    """

    def __init__(
        self, source: Source, files: Sequence[LinkedFile], imports: Mapping[str, frozenset[str]] = MappingProxyType({})
    ) -> None:
        super().__init__(source.name, source.text)
        self.files = files
        self.imports = imports
        self.imported_names = frozenset[str]().union(*imports.values())
        own_imports = (names for package, names in imports.items() if package not in self.imported_names)
        self._own_imports = frozenset[str]().union(*own_imports)
        self._starts = [file.start for file in files]

    def resolve(self, span: Span) -> tuple[Source, Span]:
        file = self.find_file_at(span.start)
        if file is None:
            return self, span
        return file.source, Span(span.start - file.start, min(span.end - file.start, len(file.source.text)))

    def find_file_at(self, offset: int) -> LinkedFile | None:
        """The file that a place is in; None in a line between files."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or offset > self._starts[at] + len(self.files[at].source.text):
            return None
        return self.files[at]

    def is_imported(self, span: Span) -> bool:
        file = self.find_file_at(span.start) if self.imported_names else None
        return file is not None and file.package in self.imported_names

    def sees(self, user: Span, declaration: Span) -> bool:
        """Whether a file may use what another one declares: of its own package, or of one that it imports.

        What is not imported is one package in this.
        """
        if not self.imported_names:
            return True
        file, other = self.find_file_at(user.start), self.find_file_at(declaration.start)
        if file is None or other is None or file.package == other.package:
            return True
        if file.package in self.imported_names:
            return other.package in self.imports.get(file.package, ())
        return other.package not in self.imported_names or other.package in self._own_imports

    def find_file(self, label: str) -> Source | None:
        """The file that is called `package/path`."""
        return next((file.source for file in self.files if f"{file.package}/{file.path}" == label), None)


def recognise_files(source: Source) -> Source:
    """The same text with its files, if it was linked from files and no hash differs; any other text as it is."""
    if not source.text.startswith((f"{_START}-- file ", f"{_START}-- import ")):
        return source
    parts = []
    at = len(_START)
    imports: dict[str, frozenset[str]] = {}
    while line := _IMPORT.match(source.text, at):
        at = line.end()
        imports[line["package"]] = imports.get(line["package"], frozenset()) | {line["imported"]}
    while header := _HEADER.match(source.text, at):
        # The number of bytes says where the file ends, so that no comment in it can pass for a header.
        length = int(header["bytes"])
        data = source.text[header.end() : header.end() + length].encode()[:length]
        content = data.decode(errors="ignore")
        if len(content.encode()) != length or to_hex(sha256(data)) != header["sha256"]:
            return source
        parts.append((header, content))
        at = header.end() + len(content)
    if not parts or at != len(source.text):
        return source
    own = parts[-1][0]["package"]
    return LinkedSource(
        source,
        [
            LinkedFile(
                header["package"],
                header["release"],
                header["path"],
                header.end(),
                Source(_make_label(source.name, header, is_own=header["package"] == own), content),
            )
            for header, content in parts
        ],
        imports,
    )


def _make_label(name: str, header: re.Match[str], *, is_own: bool) -> str:
    """A file of the folder `name` is called by its path; any other by its package."""
    package, release, path = header["package"], header["release"], header["path"]
    if name.endswith(".bpc"):
        return f"{package}/{path}"
    return f"{name.rstrip('/')}/{path}" if is_own else f"{package} {release}/{path}"
