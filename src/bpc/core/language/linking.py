"""Linking: the files of a package in, one text out; and back, from a place in the text to the file it comes from.

Pure. A package is a folder with a file `package.bpc`, which states its name, its release and the package it extends:

    language 2;
    package "acme-battery" "2027.1";
    extends "eu-battery" "2027.1";

What it extends is shipped with the product, or is in a folder: `extends "acme" "1" at "../acme";`. All other files of
the folder are its rules, which see each other; those in its folder `tests` are its tests. The text is what is stored,
compiled and verified: nothing is looked up later. Each file stands in it byte for byte, below a line that names
package, release, path, hash and length. What a package extends stands before it.

    PackageFiles, parents first ── link_package ──► LinkedTexts(rules, tests) ── recognise_files ──► LinkedSource
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.source import Source, Span

MANIFEST: Final = "package.bpc"
TESTS_FOLDER: Final = "tests/"
MAX_PACKAGES: Final = 8

_START: Final = "language 2;\n"
_HEADER: Final = re.compile(
    r'-- file "(?P<package>[A-Za-z0-9._-]+)" "(?P<release>[A-Za-z0-9._-]+)" "(?P<path>[A-Za-z0-9._/-]+)"'
    r" sha256:(?P<sha256>[0-9a-f]{64}) bytes:(?P<bytes>[0-9]{1,7})\n"
)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PATH: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*\.bpc")
_COMMENT: Final = re.compile(r"--[^\n]*")
_STATEMENT: Final = re.compile(
    r'\s*(?:(?P<level>language\s+2)|package\s+"(?P<name>[^"]*)"\s+"(?P<release>[^"]*)"'
    r'|extends\s+"(?P<parent>[^"]*)"\s+"(?P<parent_release>[^"]*)"(?:\s+at\s+"(?P<folder>[^"]*)")?)\s*;'
)
_NOTATION: Final = 'package "acme-battery" "2027.1"; and perhaps extends "eu-battery" "2027.1";'


# The manifest


class ParentPackage(NamedTuple):
    """The package that another one extends, and its folder as the manifest writes it; None if it is a shipped one."""

    name: str
    release: str
    folder: str | None


class Manifest(NamedTuple):
    name: str
    release: str
    extends: ParentPackage | None


def read_manifest(label: str, data: bytes) -> Manifest:
    """What `package.bpc` states; `Invalid` if it states something else."""
    try:
        text = _COMMENT.sub("", data.decode())
    except UnicodeDecodeError:
        raise Invalid(f"`{label}` is not UTF-8") from None
    own: tuple[str, str] | None = None
    parent: ParentPackage | None = None
    at = 0
    while statement := _STATEMENT.match(text, at):
        at = statement.end()
        if statement["name"] is not None and own is None:
            own = _require_names(label, statement["name"], statement["release"])
        elif statement["parent"] is not None and parent is None:
            parent = ParentPackage(
                *_require_names(label, statement["parent"], statement["parent_release"]), statement["folder"]
            )
        elif statement["level"] is None:
            raise Invalid(f"`{label}` states something twice: `{statement[0].strip()}`")
    if rest := text[at:].strip():
        raise Invalid(f"`{label}` is not a manifest: `{rest[:40]}`", fix=f"write {_NOTATION}")
    if own is None:
        raise Invalid(f"`{label}` names no package", fix=f"write {_NOTATION}")
    return Manifest(*own, parent)


def _require_names(label: str, name: str, release: str) -> tuple[str, str]:
    for word in (name, release):
        if not _NAME.fullmatch(word):
            fix = "names and releases have letters, digits, `.`, `_` and `-`, at most 64"
            raise Invalid(f"`{label}`: `{word[:80]}` is not a name or a release of a package", fix=fix)
    return name, release


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
    """Link a package (the last) with those it extends (before it, the oldest first)."""
    _check_parents(packages)
    rules: list[bytes] = []
    tests: list[bytes] = []
    for package in packages:
        # Sorted by code point, which is the same everywhere.
        for path in sorted(package.files):
            part = _write_file(package.manifest, path, package.files[path])
            (tests if path.startswith(TESTS_FOLDER) else rules).append(part)
    start = _START.encode()
    return LinkedTexts(b"".join([start, *rules]), b"".join([start, *tests]) if tests else b"")


def _check_parents(packages: Sequence[PackageFiles]) -> None:
    names = [package.manifest.name for package in packages]
    if len(set(names)) < len(names):
        raise Invalid(f"`{names[-1]}` extends itself: {', '.join(f'`{name}`' for name in names)}")
    for parent, package in pairwise(packages):
        stated, actual = package.manifest.extends, parent.manifest
        if stated is None or (stated.name, stated.release) != (actual.name, actual.release):
            wanted = "nothing" if stated is None else f"`{stated.name}` {stated.release}"
            raise Invalid(
                f"`{package.manifest.name}` extends {wanted}, and the folder has `{actual.name}` {actual.release}",
                fix="name the release that is there, or bring the one that is named",
            )


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
    """The text of a package of several files. A place in it is one in a file."""

    def __init__(self, source: Source, files: Sequence[LinkedFile]) -> None:
        super().__init__(source.name, source.text)
        self.files = files
        self._starts = [file.start for file in files]

    def resolve(self, span: Span) -> tuple[Source, Span]:
        at = bisect_right(self._starts, span.start) - 1
        if at < 0 or span.start > self._starts[at] + len(self.files[at].source.text):
            return self, span
        start, source = self._starts[at], self.files[at].source
        return source, Span(span.start - start, min(span.end - start, len(source.text)))

    def find_file(self, label: str) -> Source | None:
        """The file that is called `package/path`."""
        return next((file.source for file in self.files if f"{file.package}/{file.path}" == label), None)


def recognise_files(source: Source) -> Source:
    """The same text with its files, if it was linked from files and no hash differs; any other text as it is."""
    if not source.text.startswith(f"{_START}-- file "):
        return source
    parts = []
    at = len(_START)
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
    )


def _make_label(name: str, header: re.Match[str], *, is_own: bool) -> str:
    """A file of the folder `name` is called by its path; any other by its package."""
    package, release, path = header["package"], header["release"], header["path"]
    if name.endswith(".bpc"):
        return f"{package}/{path}"
    return f"{name.rstrip('/')}/{path}" if is_own else f"{package} {release}/{path}"
