"""Update the shipped catalogues: those of prints, and those of shipped rule packages. Translations stay as they are.

A text that is new is added empty; one whose English text changed is marked to be looked at again. `tests/printing/
test_catalogues.py` then names what the complete languages lack.
"""

from collections.abc import Sequence
from pathlib import Path

from bpc.cli.support.package_folders import list_shipped_packages
from bpc.cli.support.rule_files import read_package_files
from bpc.core.catalogue.extraction import list_source_texts, update_catalogue
from bpc.core.catalogue.number_format import LANGUAGES
from bpc.core.catalogue.po_file import PoEntry, format_po, parse_po
from bpc.core.catalogue.product_texts import list_product_texts
from bpc.printing.catalogues import FOLDER_NAME, WORDS, list_shipped_keys


def update_folder(folder: Path, title: str, texts: Sequence[PoEntry]) -> None:
    folder.mkdir(exist_ok=True)
    changed = 0
    for language in LANGUAGES:
        file = folder / f"{language}.po"
        before = file.read_bytes() if file.exists() else b""
        after = format_po(update_catalogue(language, title, parse_po(before), texts))
        if after != before:
            file.write_bytes(after)
            changed += 1
    print(
        f"{folder.parent.name}/{folder.name}: {f'{changed} files rewritten, read the diff' if changed else 'unchanged'}"
    )


def main() -> None:
    update_folder(WORDS, "Battery Passport Compiler: prints", list_product_texts())
    for package in list_shipped_packages():
        program = read_package_files(str(package.folder)).program
        if program is None:
            raise SystemExit(f"`{package.name}` has mistakes: bpc rules check {package.folder}")
        known = list_shipped_keys(but=package.folder)
        texts = [text for text in list_source_texts(program) if text.key not in known]
        update_folder(package.folder / FOLDER_NAME, package.name, texts)


if __name__ == "__main__":
    main()
