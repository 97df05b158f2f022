"""`bpc rules link`: the one text that the files of a package become, and the files in it."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from bpc.cli.support.output import AsJson, print_json, print_line, print_table
from bpc.cli.support.rule_files import RulesArgument, read_package_texts
from bpc.core.errors import Invalid
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.linking import LinkedSource, recognise_files
from bpc.core.language.source import Source


class LinkedFileRow(NamedTuple):
    """A file of a linked text, as its header names it."""

    package: str
    release: str
    path: str
    bytes: int
    sha256: str


def link_rules(
    rules: RulesArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write rules.bpc and tests.bpc there.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Link the files of a package into one text, as `publish` does.

    Lists the files in the order of linking: what the package imports, what it extends, then its own. The text is what
    is stored, compiled, hashed and verified.

    \b
    bpc rules link acme-battery
    bpc rules link acme-battery --out linked
    """
    texts = read_package_texts(rules)
    rows = [*_list_files(rules, texts.rules), *_list_files(rules, texts.tests)]
    if not rows:
        raise Invalid(f"`{rules}` is one text already", fix="name the folder of a package, which has a package.bpc")
    files = {} if out is None else {out / "rules.bpc": texts.rules, out / "tests.bpc": texts.tests}
    for path, data in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise Invalid(f"`{path}` cannot be written: {error.strerror}") from None
    if as_json:
        hashes = {"dsl_sha256": to_hex(sha256(texts.rules)), "tests_sha256": to_hex(sha256(texts.tests))}
        print_json({**hashes, "files": [row._asdict() for row in rows]})
        return
    print_table(("PACKAGE", "RELEASE", "FILE", "BYTES", "SHA256"), rows)
    print_line(f"rules  {len(texts.rules):,} bytes, sha256 {to_hex(sha256(texts.rules))}")
    print_line(f"tests  {len(texts.tests):,} bytes, sha256 {to_hex(sha256(texts.tests))}")


def _list_files(name: str, text: bytes) -> list[LinkedFileRow]:
    source = recognise_files(Source(name, text.decode(errors="replace")))
    if not isinstance(source, LinkedSource):
        return []
    contents = [(file, file.source.text.encode()) for file in source.files]
    return [LinkedFileRow(*file[:3], len(data), to_hex(sha256(data))) for file, data in contents]
