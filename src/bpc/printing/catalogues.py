"""The catalogues that are shipped: those of prints (`words`) and those of the shipped rule packages, by language.

Read once for each process. A catalogue that comes from outside is not kept.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from bpc.core.catalogue.number_format import SOURCE_LANGUAGE, Language
from bpc.core.catalogue.po_file import parse_po
from bpc.core.catalogue.wording import Catalogue, Wording, read_catalogue

WORDS: Final = Path(__file__).parent / "words"
RULES: Final = Path(__file__).parent.parent / "rules"
FOLDER_NAME: Final = "catalogue"


def load_wording(language: Language, catalogues: Sequence[bytes] = ()) -> Wording:
    """The texts of a language. `catalogues`, the text of a PO file each, answer before those that are shipped."""
    return Wording(language, (*(read_catalogue(data) for data in catalogues), *load_shipped(language)))


@cache
def load_shipped(language: Language) -> tuple[Catalogue, ...]:
    """The shipped catalogues of a language, those of rule packages first."""
    files = [*sorted(RULES.glob(f"*/{FOLDER_NAME}/{language}.po")), WORDS / f"{language}.po"]
    return tuple(read_catalogue(file.read_bytes()) for file in files if file.is_file())


def list_shipped_keys(*, but: Path | None = None) -> frozenset[tuple[str, str]]:
    """Context and English text of all that shipped catalogues have, without the package in the folder `but`."""
    own_folder = None if but is None else but.resolve()
    files = [file for file in RULES.glob(f"*/{FOLDER_NAME}/{SOURCE_LANGUAGE}.po") if file.parent.parent != own_folder]
    return frozenset(
        entry.key for file in (*files, WORDS / f"{SOURCE_LANGUAGE}.po") for entry in parse_po(file.read_bytes())
    )
