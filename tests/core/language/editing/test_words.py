"""The words that editors know are those of the language."""

import re
from pathlib import Path

from bpc.core.language import parsing
from bpc.core.language.checking.calls import FUNCTIONS
from bpc.core.language.editing.language_words import FUNCTION_WORDS, KEYWORDS
from bpc.core.language.manifest import MANIFEST, read_manifest
from bpc.core.language.parsing.lexer import RESERVED

SOURCES = [path.read_text() for path in sorted(Path(parsing.__file__).parent.glob("*.py"))]
# Words of manifests, which no rule can contain.
OF_MANIFESTS = {"package", "extends", "at"}


def test_every_word_that_the_parser_asks_for_is_known() -> None:
    asked = {word for text in SOURCES for word in re.findall(r'(?:is|expect)_word\("(\w+)"\)', text)}

    assert len(asked) > 30
    assert (asked | RESERVED) - KEYWORDS.keys() == set()


def test_no_word_is_known_that_the_parser_does_not_have() -> None:
    text = "".join(SOURCES)

    invented = [word for word in KEYWORDS if not re.search(rf'["`(\s]{word}["`)\s,]', text)]

    assert set(invented) <= OF_MANIFESTS
    assert read_manifest(MANIFEST, b'package "a" "1"; extends "b" "2" at "../b";').extends is not None


def test_every_function_is_described() -> None:
    assert FUNCTION_WORDS.keys() == FUNCTIONS.keys()
    assert [name for name, words in FUNCTION_WORDS.items() if not words.endswith(".")] == []
