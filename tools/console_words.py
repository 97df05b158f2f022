"""Collect the texts of the console and bring its catalogues up to date: `src/bpc/api/console/words/<language>/*.po`.

A file for each subject, named like the family of pages: its texts are those of `pages/<subject>.py` and of the
templates in `templates/<subject>/`, but for those that the frame says too: everything else, in `console.po`. A
translation stays as long as its text is said. A new text gets the translation that another subject has for it, or none,
and a test fails until somebody translates it.
"""

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Final

from babel.messages.extract import extract

from bpc.api.console.translations import FOLDER, LANGUAGES
from bpc.core.catalogue.po_file import PoEntry, build_header, format_po, parse_po

CONSOLE: Final = FOLDER.parent
KEYWORDS: Final = {"_": None, "N_": None, "translate": None}
FRAME: Final = "console"
SOURCE_LANGUAGE: Final = "en"


def collect_words() -> Mapping[str, list[str]]:
    """The texts of each subject, each once, in the order of the alphabet."""
    texts_by_subject: dict[str, set[str]] = {}
    for file in sorted([*CONSOLE.rglob("*.py"), *CONSOLE.rglob("*.jinja")]):
        texts_by_subject.setdefault(name_subject(file), set()).update(extract_texts(file))
    frame = texts_by_subject.pop(FRAME, set())
    words = {FRAME: sorted(frame)}
    words |= {subject: sorted(texts - frame) for subject, texts in sorted(texts_by_subject.items())}
    return {subject: texts for subject, texts in words.items() if texts}


def name_subject(file: Path) -> str:
    """`pages/products.py` and `templates/products/list.html.jinja` are about products; the rest is the frame."""
    folder, *inner = file.relative_to(CONSOLE).parts
    if folder == "templates" and len(inner) > 1:
        return inner[0]
    if folder == "pages" and inner != ["__init__.py"]:
        return inner[0].removesuffix(".py")
    return FRAME


def extract_texts(file: Path) -> Iterator[str]:
    method = "python" if file.suffix == ".py" else "jinja2.ext:babel_extract"
    options = {"trim_blocks": "true", "silent": "false"}
    for _, message, _, _ in extract(method, BytesIO(file.read_bytes()), KEYWORDS, options=options):
        text = message if isinstance(message, str) else message[0]
        if text:
            yield text


def update_catalogue(language: str) -> Mapping[Path, bytes]:
    """The files of a language as they should be."""
    folder = FOLDER / language
    entries = [entry for file in folder.glob("*.po") for entry in parse_po(file.read_bytes())]
    translations = {entry.source: entry.translation for entry in entries if entry.source and entry.translation}
    return {
        folder / f"{subject}.po": format_po(
            [
                build_header(language, f"console, {subject}"),
                *(PoEntry(context="", source=text, translation=translations.get(text, "")) for text in texts),
            ]
        )
        for subject, texts in collect_words().items()
    }


def main() -> None:
    for language in LANGUAGES:
        if language == SOURCE_LANGUAGE:
            continue
        files = update_catalogue(language)
        for file in (FOLDER / language).glob("*.po"):
            if file not in files:
                file.unlink()
        for file, content in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


if __name__ == "__main__":
    main()
