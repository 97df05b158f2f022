"""Lexing: rule text in, words and signs out, each with its place; comments apart.

Pure, and never raises for any text. What is not a word of the language is reported and stays in the stream (as the
number or text it was meant to be, else as `bad`), so that one mistake is one message. Lexing is lazy: it reads a window
of the text at a time, so a file that is refused early is not read to its end.
"""

import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from bpc.core.language.parsing.notation_fixes import FIXES_OF_CHARACTERS
from bpc.core.language.source import Diagnostic, Span
from bpc.core.language.syntax import ESCAPES

MAX_NAME_LENGTH: Final = 64
MAX_NUMBER_LENGTH: Final = 100

NAME: Final = "name"
NUMBER: Final = "number"
TEXT: Final = "text"
BAD: Final = "bad"
# The `.2` of the data point `DP43.2`, at level 2.
SUB_ITEM: Final = "sub-item"
END: Final = ""

RESERVED: Final = frozenset(
    ("field", "example", "property", "let", "if", "then", "else", "assert", "fn", "true", "false", "none")
)
_SIGNS: Final = (
    *("(", ")", "[", "]", "{", "}", ",", ";", ":", ".", "@", "=", "=>"),
    *("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "!", "&&", "||"),
)
_FIXED_KINDS: Final = {word: word for word in (*_SIGNS, *sorted(RESERVED))}
# Signs that level 2 of the language adds; at level 1 they are unexpected characters.
_LEVEL_TWO_SIGNS: Final = ("|", "??")
_LANGUAGE: Final = re.compile(
    r"(?:[ \t\r\n]++|--[^\n]*+\n)*+language(?:[ \t\r\n]++|--[^\n]*+\n)*+([0-9]++)(?![A-Za-z_.])"
)
_FAULTY_NAME: Final = "faulty name"
_FAULTY_NUMBER: Final = "faulty number"
_FAULTY_TEXT: Final = "faulty text"
_FAULTY: Final = {_FAULTY_NAME: NAME, _FAULTY_NUMBER: NUMBER, _FAULTY_TEXT: TEXT, BAD: BAD}

# Together these match any text without a gap. ASCII only; a text, a comment and a name are as long as they can be.
_LEXEME: Final = re.compile(
    r"""
      [ \t\r\n]+
    | [A-Za-z_][A-Za-z0-9_]*
    | [(){}\[\],;:@+*/]
    | "[^"\\\n]*(?:\\[^\n][^"\\\n]*)*(?:"|\\|)
    | \.?[0-9][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]*)*
    | --[^\n]*
    | =[>=]? | [<>!]=? | && | \|\| | [.\-&|]
    | '[^'\n]*'?
    | [\u201c-\u201f][^\u201c-\u201f"\n]*[\u201c-\u201f]?
    | [^ \t\r\nA-Za-z0-9_(){}\[\],;:@+*/".=<>!&|'\u201c-\u201f-]+
    """,
    re.VERBOSE,
)
_POINT: Final = re.compile(r"DP[0-9]{1,2}")
_SUB_ITEM: Final = re.compile(r"\.[0-9]{1,2}")
_GOOD_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_ESCAPE: Final = re.compile(
    r"\\u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})|\\(.)", re.DOTALL
)
_GOOD_TEXT: Final = re.compile(
    r"""
    "[^"\\\x00-\x1f\ud800-\udfff]*
    (?:
      \\(?:
        ["\\/bfnrt]
      | u(?!0000|[dD][89a-fA-F])[0-9A-Fa-f]{4}
      | u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}
      )
      [^"\\\x00-\x1f\ud800-\udfff]*
    )*"
    """,
    re.VERBOSE,
)
# The same at level 2, where `\{` is a brace that starts no expression.
_GOOD_TEXT_OF_LEVEL_TWO: Final = re.compile(_GOOD_TEXT.pattern.replace("bfnrt]", "bfnrt{]"), re.VERBOSE)
_CLOSED_TEXT: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_RAW_CHARACTER: Final = re.compile("[\x00-\x1f\ud800-\udfff]")
_ESCAPE_SPELLINGS: Final = {"\t": "`\\t`", "\r": "`\\r`", "\b": "`\\b`", "\f": "`\\f`"}
# After an edit only a few words are read again, so the first window is small.
_FIRST_WINDOW: Final = 1 << 11
_LARGEST_WINDOW: Final = 1 << 16


class _KindCache(dict[str, str]):
    """The kind of a lexeme, worked out once for each spelling; blanks and comments have the kind `END`."""

    def __init__(self, language: int) -> None:
        super().__init__(_FIXED_KINDS)
        self._good_text = _GOOD_TEXT
        if language > 1:
            self.update((sign, sign) for sign in _LEVEL_TWO_SIGNS)
            self._good_text = _GOOD_TEXT_OF_LEVEL_TWO

    def __missing__(self, lexeme: str) -> str:
        kind = self[lexeme] = _classify(lexeme, self._good_text)
        return kind


def _classify(lexeme: str, good_text: re.Pattern[str]) -> str:
    first = lexeme[0]
    if first in " \t\r\n" or lexeme.startswith("--"):
        return END
    if first == '"':
        return TEXT if good_text.fullmatch(lexeme) else _FAULTY_TEXT
    if first in "'\u201c\u201d\u201e\u201f":
        return _FAULTY_TEXT
    if "0" <= first <= "9" or (first == "." and len(lexeme) > 1):
        good_number = len(lexeme) <= MAX_NUMBER_LENGTH and _GOOD_NUMBER.fullmatch(lexeme)
        return NUMBER if good_number else _FAULTY_NUMBER
    if "a" <= first <= "z" or "A" <= first <= "Z" or first == "_":
        return NAME if len(lexeme) <= MAX_NAME_LENGTH else _FAULTY_NAME
    return BAD


class Lexer:
    """The words of `text`, as three lists in step: kind, spelling, start. More of them whenever `more` is called.

    The kind of a reserved word or sign is its spelling. The last three words are `END`.
    """

    def __init__(self, text: str, report: Callable[[Diagnostic], None], language: int = 1, *, offset: int = 0) -> None:
        """`offset` is added to every place: where `text` stands in the text that it is a part of."""
        self.text = text
        self._language = language
        self._offset = offset
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.comments: list[tuple[int, str]] = []
        self.is_complete = False
        self._report = report
        self._position = 0
        self._has_comments = "--" in text
        self._window = _FIRST_WINDOW
        self._kind_cache = _KindCache(language)
        self._long_names: set[str] = set()

    def lex_more(self) -> None:
        """Lex one window further, or add the end."""
        lexemes = self._read_lexemes()
        starts = list(accumulate(map(len, lexemes), initial=self._offset + self._position))
        kinds = list(map(self._kind_cache.__getitem__, lexemes))
        self._position = starts.pop() - self._offset
        if not _FAULTY.keys().isdisjoint(kinds):
            self._report_faults(kinds, lexemes, starts)
        word_indexes = [index for index, kind in enumerate(kinds) if kind]
        self.kinds += [kinds[index] for index in word_indexes]
        self.texts += [lexemes[index] for index in word_indexes]
        self.starts += starts if len(word_indexes) == len(starts) else [starts[index] for index in word_indexes]
        if self._has_comments:
            self.comments += [(at, text) for at, text in zip(starts, lexemes, strict=True) if text[:2] == "--"]
        if self._position == len(self.text):
            self._append_end()

    def jump(self, position: int) -> None:
        """Go on lexing at `position`, a place where a word starts; what was lexed beyond it stays lexed."""
        self._position = max(self._position, position)

    def _append_end(self) -> None:
        self.is_complete = True
        self.kinds += [END] * 3
        self.texts += [""] * 3
        self.starts += [self._offset + len(self.text)] * 3

    def _read_lexemes(self) -> list[str]:
        """The lexemes of a window. The last one may go on behind its edge, so the next window starts with it."""
        while True:
            edge = self._position + self._window
            lexemes: list[str] = _LEXEME.findall(self.text, self._position, edge)
            if edge >= len(self.text):
                return lexemes
            if len(lexemes) > 1:
                self._window = max(self._window, min(self._window * 4, _LARGEST_WINDOW))
                return lexemes[:-1]
            self._window *= 4

    def _report_faults(self, kinds: list[str], lexemes: list[str], starts: list[int]) -> None:
        for index, kind in enumerate(kinds):
            if kind not in _FAULTY:
                continue
            lexeme, start = lexemes[index], starts[index]
            kinds[index] = _FAULTY[kind]
            if kind == _FAULTY_TEXT:
                self._report_text_faults(lexeme, start)
                if not (lexeme[0] == '"' and _CLOSED_TEXT.fullmatch(lexeme)):
                    kinds[index] = BAD
            elif kind == _FAULTY_NUMBER and self._is_sub_item(lexeme, lexemes[index - 1] if index else None, start):
                kinds[index] = SUB_ITEM
            elif kind == _FAULTY_NUMBER:
                self._report_fault(start, lexeme, *_explain_number(lexeme))
            elif kind == BAD:
                message = f"unexpected character {_format_character(lexeme[0])}"
                self._report_fault(start, lexeme, "unexpected-character", message, _suggest_for_character(lexeme[0]))
            elif lexeme not in self._long_names:
                self._long_names.add(lexeme)
                message = f"a name has at most {MAX_NAME_LENGTH} characters, this one has {len(lexeme):,}"
                self._report_fault(start, lexeme, "name-too-long", message)

    def _is_sub_item(self, lexeme: str, before: str | None, start: int) -> bool:
        """Whether a lexeme ends the name of a data point that stands directly before it, perhaps in another window."""
        if self._language == 1 or not _SUB_ITEM.fullmatch(lexeme):
            return False
        if before is None and self.texts and self.starts[-1] + len(self.texts[-1]) == start:
            before = self.texts[-1]
        return before is not None and _POINT.fullmatch(before) is not None

    def _report_text_faults(self, lexeme: str, start: int) -> None:
        if lexeme[0] != '"':
            message = f"`{lexeme[0]}` does not start a text"
            self._report_fault(start, lexeme, "unexpected-character", message, 'write `"\u2026"`')
        elif not _CLOSED_TEXT.fullmatch(lexeme):
            message = "the text has no closing quote on this line"
            self._report_fault(start, lexeme.removesuffix("\r"), "unclosed-text", message, 'close it with `"`')
        for at, end, message, help_ in _find_escape_faults(lexeme, self._language):
            self._report_fault(start + at, lexeme[at:end], "bad-escape", message, help_)
        if raw := _RAW_CHARACTER.search(lexeme.removesuffix("\r")):
            message = f"a text cannot contain {_format_character(raw[0])} directly"
            help_ = f"write {_ESCAPE_SPELLINGS[raw[0]]}" if raw[0] in _ESCAPE_SPELLINGS else None
            self._report_fault(start + raw.start(), raw[0], "unexpected-character", message, help_)

    def _report_fault(self, start: int, lexeme: str, kind: str, message: str, help_: str | None = None) -> None:
        self._report(Diagnostic(kind=kind, message=message, span=Span(start, start + len(lexeme)), help=help_))


def find_language(text: str) -> int | None:
    """The level that a text begins with (`language 2;`), before anything of it is lexed; None if it states none."""
    statement = _LANGUAGE.match(text)
    return None if statement is None or len(statement[1]) > 1 else int(statement[1])


def is_natural(spelling: str) -> bool:
    """Whether a number has digits only. One with a mistake that was reported need not be a number at all."""
    return "." not in spelling and len(spelling) <= MAX_NUMBER_LENGTH and _GOOD_NUMBER.fullmatch(spelling) is not None


def decode_text(lexeme: str) -> str:
    """What a text literal says, its escapes resolved; escapes that were reported are left out."""
    if "\\" not in lexeme:
        return lexeme[1:-1]
    return _ESCAPE.sub(_decode_escape, lexeme[1:-1])


def _decode_escape(escape: re.Match[str]) -> str:
    high, low, unit, letter = escape.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    if unit is not None:
        value = int(unit, 16)
        return "" if value == 0 or 0xD800 <= value <= 0xDFFF else chr(value)
    return letter if letter == "{" else ESCAPES.get(letter, "")


def _find_escape_faults(lexeme: str, language: int) -> Iterator[tuple[int, int, str, str | None]]:
    """What is wrong with the escapes of a text: start, end, sentence, help."""
    for escape in _ESCAPE.finditer(lexeme):
        unit, letter = escape[3], escape[4]
        at, end = escape.span()
        if unit is not None and int(unit, 16) == 0:
            yield at, end, "a text cannot contain the character U+0000", None
        elif unit is not None and 0xD800 <= int(unit, 16) <= 0xDFFF:
            message = f"`\\u{unit}` is one half of a surrogate pair; the other half is missing"
            yield at, end, message, "a pair is a high half (`\\ud83d`) directly before a low half (`\\ude00`)"
        elif letter == "u":
            yield at, end, "`\\u` needs four hexadecimal digits", "such as `\\u00e9`"
        elif letter is not None and letter not in ESCAPES and not (letter == "{" and language > 1):
            known = '`\\"`, `\\\\`, `\\/`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t` and `\\u` with four digits'
            is_visible = " " < letter <= "~"
            message = f"`\\{letter}` is not a known escape sequence" if is_visible else "unknown escape sequence"
            yield at, end, message, f"the escape sequences are {known}"


def _explain_number(lexeme: str) -> tuple[str, str, str | None]:
    """The kind, the message and the help for something that starts like a number."""
    if len(lexeme) > MAX_NUMBER_LENGTH:
        message = f"a number has at most {MAX_NUMBER_LENGTH} characters, this one has {len(lexeme):,}"
        return "number-too-large", message, None
    message, help_ = _explain_bad_number(lexeme)
    return "bad-number", f"{message}: `{lexeme}`", help_


def _explain_bad_number(lexeme: str) -> tuple[str, str]:
    """The rule that a number breaks, and what was probably meant."""
    without_point, plain = lexeme.rstrip("."), lexeme.replace("_", "")
    if lexeme.startswith("."):
        return "a point needs digits before it", f"write `0{lexeme}`"
    if _GOOD_NUMBER.fullmatch(without_point):
        return "a point needs digits after it", f"write `{without_point}`"
    if _GOOD_NUMBER.fullmatch(plain):
        return "a number is written without `_`", f"write `{plain}`"
    if re.fullmatch(r"[0-9.]+[eE][0-9]*", lexeme):
        return "a number is written without an exponent", "write all its digits"
    if with_unit := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z][A-Za-z0-9_]*)", lexeme):
        return "no letter may follow a number directly", f"a quantity is written `qty({with_unit[1]}, {with_unit[2]})`"
    return "this is not a valid number", "a number is digits, with at most one point between them"


def _suggest_for_character(character: str) -> str | None:
    if character in FIXES_OF_CHARACTERS:
        return FIXES_OF_CHARACTERS[character]
    return "only ASCII characters are allowed outside texts and comments" if character > "~" else None


def _format_character(character: str) -> str:
    """A character for a message; one that may be invisible or change the direction of the line only by its number."""
    code = ord(character)
    if " " < character <= "~":
        return f"`{character}`"
    if (0xA1 <= code <= 0x24F and code != 0xAD) or character in FIXES_OF_CHARACTERS:
        return f"`{character}` (U+{code:04X})"
    return f"U+{code:04X}"
