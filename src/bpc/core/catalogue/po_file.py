"""PO files: the text of a gettext catalogue in, its entries out, and back; and the patterns that its texts are.

Pure. Read is what GNU gettext writes, without plural forms; a file with anything else is refused with its line.
Written is one form: the same entries give the same bytes.

    #. {cobalt}: number          a note for translators, from the rules
    #, fuzzy                     the English text changed: look at the translation again
    msgctxt "finding DP20 message"
    msgid "only {cobalt} % is recovered"
    msgstr "nur {cobalt} % stammen aus der Verwertung"

    #~ msgid "…"                 obsolete: no rule says it any more

A pattern has arguments in braces, `only {cobalt} % is recovered`. The name of an argument is the one that the rule
gives it, or its expression. A brace that is meant is doubled. A note says what kind of value it is: `{cobalt}: number`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from bpc.core.errors import Invalid

LONGEST_FILE: Final = 1_048_576

_WIDTH: Final = 110
_LINE: Final = re.compile(r'(msgctxt|msgid|msgstr)?\s*"((?:[^"\\]|\\.)*)"\s*')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_QUOTED: Final = str.maketrans({"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"})
_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_NOTE: Final = re.compile(r"\{([^{}]+)\}: (\S+)")
_PIECE: Final = re.compile(r"\S*\s*")


class CatalogueUnreadable(Invalid):
    """A file that is no catalogue, with the line that is wrong."""

    def __init__(self, line: int, says: str) -> None:
        super().__init__(f"line {line} of the catalogue {says}", fix="write it with a tool for gettext (PO) files")
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class PoEntry:
    """A text and its translation, "" if there is none. `notes` are for translators, `comments` by them."""

    context: str
    source: str
    translation: str = ""
    notes: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    is_fuzzy: bool = False
    is_obsolete: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.context, self.source


@dataclass(slots=True)
class _Block:
    """An entry while its lines are read."""

    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    is_fuzzy: bool = False
    is_obsolete: bool = False
    last: str | None = None

    def build(self) -> PoEntry | None:
        if "msgid" not in self.texts:
            return None
        return PoEntry(
            context=self.texts.get("msgctxt", ""),
            source=self.texts["msgid"],
            translation=self.texts.get("msgstr", ""),
            notes=tuple(self.notes),
            comments=tuple(self.comments),
            is_fuzzy=self.is_fuzzy,
            is_obsolete=self.is_obsolete,
        )


def parse_po(data: bytes) -> list[PoEntry]:
    """The entries of a file, its header first if it has one. Raises `CatalogueUnreadable`."""
    if len(data) > LONGEST_FILE:
        raise CatalogueUnreadable(1, f"is of a file of {len(data):,} bytes; at most {LONGEST_FILE:,} are read")
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as wrong:
        raise CatalogueUnreadable(data[: wrong.start].count(b"\n") + 1, "is not UTF-8") from None
    entries: dict[tuple[str, str, bool], PoEntry] = {}
    for line, entry in _parse_blocks(text):
        if entries.setdefault((*entry.key, entry.is_obsolete), entry) is not entry and not entry.is_obsolete:
            raise CatalogueUnreadable(line, f"ends a second entry for `{entry.context}` `{entry.source[:60]}`")
    return list(entries.values())


def _parse_blocks(text: str) -> Iterator[tuple[int, PoEntry]]:
    block = _Block()
    number = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\r")
        begins = line.removeprefix("#~").strip()
        starts = begins.startswith(("#", "msgctxt", "msgid"))
        if "msgstr" in block.texts and (not line or starts):
            if entry := block.build():
                yield number, entry
            block = _Block()
        if line:
            _add_line(block, number, line)
    if entry := block.build():
        yield number, entry


def _add_line(block: _Block, number: int, line: str) -> None:
    if line.startswith("#~"):
        block.is_obsolete = True
        line = line[2:].strip()
    if line.startswith("#"):
        _add_comment(block, line)
        return
    match = _LINE.fullmatch(line)
    if match is None:
        raise CatalogueUnreadable(number, f'is not `msgid "…"` or the like: {line[:60]}')
    keyword, quoted_text = match.groups()
    if keyword is None and block.last is None:
        raise CatalogueUnreadable(number, "is a text that belongs to no keyword")
    if keyword is not None and keyword in block.texts:
        raise CatalogueUnreadable(number, f"is a second `{keyword}` of one entry")
    block.last = keyword or block.last or ""
    block.texts[block.last] = block.texts.get(block.last, "") + _unquote(number, quoted_text)


def _add_comment(block: _Block, line: str) -> None:
    if line.startswith("#."):
        block.notes.append(line[2:].strip())
    elif line.startswith("#,"):
        block.is_fuzzy = block.is_fuzzy or "fuzzy" in line
    elif not line.startswith(("#:", "#|")):
        block.comments.append(line[1:].strip())


def _unquote(number: int, text: str) -> str:
    def replace_escape(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise CatalogueUnreadable(number, f"has the escape `\\{match[1]}`, which PO files do not have")
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(replace_escape, text)


def format_po(entries: Iterable[PoEntry]) -> bytes:
    """The file with these entries, obsolete ones last."""
    entry_list = sorted(entries, key=lambda entry: entry.is_obsolete)
    return "\n".join("".join(f"{line}\n" for line in _format_entry(entry)) for entry in entry_list).encode()


def _format_entry(entry: PoEntry) -> Iterator[str]:
    yield from (f"# {comment}".rstrip() for comment in entry.comments)
    yield from (f"#. {note}".rstrip() for note in entry.notes)
    if entry.is_fuzzy:
        yield "#, fuzzy"
    mark = "#~ " if entry.is_obsolete else ""
    texts = [("msgid", entry.source), ("msgstr", entry.translation)]
    if entry.context:
        texts.insert(0, ("msgctxt", entry.context))
    for keyword, text in texts:
        yield from (f"{mark}{line}" for line in _format_text(keyword, text))


def _format_text(keyword: str, text: str) -> list[str]:
    """One line, or an empty text and a line for each part, as gettext writes it."""
    lines = [quoted_text for part in _split_lines(text) for quoted_text in _wrap(part)]
    if len(lines) <= 1:
        return [f'{keyword} "{"".join(lines)}"']
    return [f'{keyword} ""', *(f'"{line}"' for line in lines)]


def _split_lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _wrap(text: str) -> list[str]:
    lines = [""]
    for piece in _PIECE.findall(text):
        quoted_text = piece.translate(_QUOTED)
        if lines[-1] and len(lines[-1]) + len(quoted_text) > _WIDTH:
            lines.append("")
        lines[-1] += quoted_text
    return lines


def build_header(language: str, title: str) -> PoEntry:
    """The entry without a text that every tool for gettext asks for."""
    lines = (
        f"Project-Id-Version: {title}",
        f"Language: {language}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        "Content-Transfer-Encoding: 8bit",
    )
    return PoEntry(context="", source="", translation="".join(f"{line}\n" for line in lines))


def read_language(entries: Sequence[PoEntry]) -> str:
    """The language that the header names; "" if it names none."""
    header = next((entry.translation for entry in entries if entry.key == ("", "")), "")
    return next((line[9:].strip() for line in header.split("\n") if line.startswith("Language:")), "")


def mark_fuzzy(entry: PoEntry) -> PoEntry:
    """The entry, to be looked at again."""
    return replace(entry, is_fuzzy=True)


class PatternPart(NamedTuple):
    """A text as it is, or the name of an argument."""

    text: str
    is_argument: bool


def parse_pattern(pattern: str) -> list[PatternPart]:
    """The parts of a pattern in their order."""
    return list(_iterate_parts(pattern))


def _iterate_parts(pattern: str) -> Iterator[PatternPart]:
    end = 0
    for match in _PART.finditer(pattern):
        if match.start() > end:
            yield PatternPart(pattern[end : match.start()], is_argument=False)
        name: str | None = match[1]
        yield PatternPart(match[0][0], is_argument=False) if name is None else PatternPart(name, is_argument=True)
        end = match.end()
    if end < len(pattern):
        yield PatternPart(pattern[end:], is_argument=False)


def list_arguments(pattern: str) -> list[str]:
    """The names of the arguments, sorted, each as often as it stands there."""
    return sorted(part.text for part in _iterate_parts(pattern) if part.is_argument)


def fill_pattern(pattern: str, args: Mapping[str, str], write: Callable[[str, str], str] | None = None) -> str | None:
    """The sentence; None if an argument is not there. `write` is given a name and a text, and writes it."""
    pieces: list[str] = []
    for text, is_argument in _iterate_parts(pattern):
        if not is_argument:
            pieces.append(text)
        elif text in args:
            pieces.append(args[text] if write is None else write(text, args[text]))
        else:
            return None
    return "".join(pieces)


def escape_braces(text: str) -> str:
    """A text that stands in a pattern as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def describe_kinds(kinds: Mapping[str, str]) -> tuple[str, ...]:
    """The notes that say of each argument what it is."""
    return tuple(f"{{{name}}}: {kind}" for name, kind in sorted(kinds.items()))


def read_kinds(notes: Iterable[str]) -> dict[str, str]:
    """What the notes say of each argument."""
    return dict(match.groups() for note in notes if (match := _NOTE.fullmatch(note)) is not None)  # type: ignore[misc]
