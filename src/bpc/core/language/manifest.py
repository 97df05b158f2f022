"""Manifests: what `package.bpc` states of a package: its name, its release, what it extends and what it imports.

Pure.

    language 2;
    package "acme-battery" "2027.1";
    extends "eu-battery" "2027.1";
    import "acme-units" "1" at "../acme-units";

Without a folder, a package is one that is shipped with the product. A folder is found from that of the package.
"""

import re
from typing import Final, NamedTuple

from bpc.core.errors import Invalid

MANIFEST: Final = "package.bpc"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COMMENT: Final = re.compile(r"--[^\n]*")
_STATEMENT: Final = re.compile(
    r'\s*(?:(?P<level>language\s+2)|(?P<word>package|extends|import)\s+"(?P<name>[^"]*)"\s+"(?P<release>[^"]*)"'
    r'(?:\s+at\s+"(?P<folder>[^"]*)")?)\s*;'
)
_NOTATION: Final = (
    'package "acme-battery" "2027.1"; and perhaps extends "eu-battery" "2027.1"; or import "acme-units" "1";'
)


class PackageReference(NamedTuple):
    """A package that another one extends or imports. `folder` is as the manifest writes it; None if it is shipped."""

    name: str
    release: str
    folder: str | None = None

    def __str__(self) -> str:
        return f"`{self.name}` {self.release}"


class Manifest(NamedTuple):
    """`imports` are in the order of their names."""

    name: str
    release: str
    extends: PackageReference | None = None
    imports: tuple[PackageReference, ...] = ()

    def __str__(self) -> str:
        return f"`{self.name}` {self.release}"


def read_manifest(label: str, data: bytes) -> Manifest:
    """What `package.bpc` states; `Invalid` if it states something else."""
    try:
        text = _COMMENT.sub("", data.decode())
    except UnicodeDecodeError:
        raise Invalid(f"`{label}` is not UTF-8") from None
    statements: dict[str, PackageReference] = {}
    imports: dict[str, PackageReference] = {}
    at = 0
    while statement := _STATEMENT.match(text, at):
        word, folder = statement["word"], statement["folder"]
        if word == "package" and folder is not None:
            break
        at = statement.end()
        if word is None:
            continue
        reference = PackageReference(*_require_names(label, statement["name"], statement["release"]), folder)
        kind, key = (imports, reference.name) if word == "import" else (statements, word)
        if key in kind:
            raise Invalid(f"`{label}` states something twice: `{statement[0].strip()}`")
        kind[key] = reference
    if rest := text[at:].strip():
        raise Invalid(f"`{label}` is not a manifest: `{rest[:40]}`", fix=f"write {_NOTATION}")
    if "package" not in statements:
        raise Invalid(f"`{label}` names no package", fix=f"write {_NOTATION}")
    own = statements["package"]
    return Manifest(own.name, own.release, statements.get("extends"), tuple(imports[name] for name in sorted(imports)))


def _require_names(label: str, name: str, release: str) -> tuple[str, str]:
    for word in (name, release):
        if not _NAME.fullmatch(word):
            fix = "names and releases have letters, digits, `.`, `_` and `-`, at most 64"
            raise Invalid(f"`{label}`: `{word[:80]}` is not a name or a release of a package", fix=fix)
    return name, release
