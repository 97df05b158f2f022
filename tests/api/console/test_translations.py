"""The texts of the console: collected, complete in every language, with the same values in each."""

import re
from collections import defaultdict

import pytest

from bpc.api.console.translations import FOLDER, LANGUAGES
from bpc.core.catalogue.po_file import parse_po
from tools.console_words import update_catalogue

TRANSLATED = [language for language in LANGUAGES if language != "en"]
PLACE = re.compile(r"%\([a-z_]+\)s")


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_text_is_in_its_catalogue_and_translated(language: str) -> None:
    """`python -m tools.console_words` writes the files; what is empty there is for a translator."""
    expected = update_catalogue(language)
    files = {file: file.read_bytes() for file in (FOLDER / language).glob("*.po")}

    assert files == expected
    empty = [entry.source for content in files.values() for entry in parse_po(content) if not entry.translation]
    assert empty == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_translation_names_the_values_of_its_text_and_is_the_same_everywhere(language: str) -> None:
    translations = defaultdict(set)
    for file in (FOLDER / language).glob("*.po"):
        for entry in parse_po(file.read_bytes()):
            assert sorted(PLACE.findall(entry.source)) == sorted(PLACE.findall(entry.translation)), entry.source
            if entry.source:
                translations[entry.source].add(entry.translation)

    assert {text: several for text, several in translations.items() if len(several) > 1} == {}
