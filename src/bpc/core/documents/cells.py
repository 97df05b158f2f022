"""Cells and rows of tables, as CSV and spreadsheets give them before a column's type is known."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from bpc.core.documents import DocumentNote, Notes, quote_text
from bpc.core.documents.elements import NumberText
from bpc.core.documents.fact_members import BLANKS
from bpc.core.documents.header_names import build_synonym_index
from bpc.core.documents.header_text import MAX_HEADER_LENGTH, build_name_key, fold_text

MAX_COLUMNS: Final = 2_000

MAX_WORDS_OF_A_TOTAL: Final = 4
MIN_WORDS_OF_A_REMARK: Final = 7

# What a template writes below a header: what the member means, and in brackets how to write it.
_EXPLANATION: Final = re.compile(r".+ \(.+\)", re.DOTALL)
_TOTAL: Final = re.compile(
    "totale?s?|totali|totaux|(?:gesamt|end|zwischen|teil)?summe|gesamt|gesamt(?:gewicht|masse)|insgesamt|somme|sums?|suma"
    "|razem|ogolem|lacznie|subtotale?s?"
)
_KINDS_OF_TOTAL: Final = frozenset("grand general generale sous sub partial parcial parziale".split())  # noqa: SIM905
_FOOTNOTE: Final = re.compile(
    r"[*†‡¹³]|\(?[0-9]{1,2}\) |(?:notes?|remarks?|source|hinweise?|anmerkung(?:en)?|bemerkung(?:en)?|fussnoten?"
    r"|quellen?|remarques?|nota|notas|observaciones|fuente|osservazioni|fonte|uwag[ai]|zrodlo)\b.*[:\s]"
)
_COMMENT: Final = re.compile(r"#(?:[ \t\n].*)?", re.DOTALL)
# What a spreadsheet in English, German, French, Spanish, Italian or Polish shows for a formula that fails.
_FORMULA_ERRORS: Final = frozenset(
    """
    #REF! #DIV/0! #N/A #NAME? #NULL! #NUM! #VALUE! #SPILL! #CALC! #FIELD! #BLOCKED! #UNKNOWN! #GETTING_DATA
    #BEZUG! #NV #WERT! #ZAHL! #ÜBERLAUF! #VALEUR! #NOM? #NOMBRE! #NUL! #PROPAGATION! #¡REF! #¡DIV/0! #¿NOMBRE?
    #¡NULO! #¡NUM! #¡VALOR! #¡DESBORDAMIENTO! #RIF! #N/D #NOME? #VALORE! #NULLO! #ADR! #DZIEL/0! #N/D! #NAZWA?
    #ZERO! #LICZBA! #ARG! #ROZLANIE!
    """.split()  # noqa: SIM905
)
_OFFICE_ERROR: Final = re.compile(r"Err:[0-9]{3}")


@dataclass(frozen=True, slots=True)
class DateCell:
    """A cell that holds a date, written like 2027-02-18."""

    text: str


@dataclass(frozen=True, slots=True)
class PercentCell:
    """A number that its cell shows as a percentage; `text` is the number before the `%`."""

    text: str


@dataclass(frozen=True, slots=True)
class FormattedNumber:
    """A number that its cell shows in another form than it is stored.

    `unit` is what the number format adds (`0.0" t"`), and `shown` the text that a person sees, such as `000123`; None
    if that cannot be said. With a `fault` it is not a number, but may be a text.
    """

    text: str
    unit: str
    shown: str | None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class InvalidCell:
    """A cell that cannot be read; `says` is the problem."""

    says: str


Cell: TypeAlias = str | NumberText | PercentCell | FormattedNumber | bool | DateCell | InvalidCell


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of a row that are not empty, by their column, counted from 0; `number` is the row's in the file."""

    place: str
    cells: Mapping[int, Cell]
    number: int = 0


class Sheet(Protocol):
    """A table of any format."""

    @property
    def name(self) -> str: ...

    def read_rows(self, notes: Notes) -> Iterator[TableRow]:
        """The rows that are not empty."""
        ...

    def locate_cell(self, row: str, column: int | None, name: str) -> str:
        """The place of a cell; `column` is None if the table has no column of that name."""
        ...

    def locate_column(self, column: int) -> str:
        """The place of a whole column."""
        ...

    def explain_extra_cells(self, cells: int, width: int) -> str | None:
        """Why a row must not have more cells than the header has names; None if it may."""
        ...

    def list_display_notes(self, first_row: int, columns: Collection[int]) -> list[DocumentNote]:
        """What a person does not see, or sees otherwise, of these columns from a row on, once all rows were read."""
        ...


def is_comment(cells: Mapping[int, Cell]) -> bool:
    """Whether the first cell of a row makes it a comment. A header may call a column of row numbers `#`."""
    first = cells[min(cells)]
    if not isinstance(first, str) or _COMMENT.fullmatch(first) is None:
        return False
    return first != "#" or not any(names_product(cell) for cell in cells.values())


def drop_comments(rows: Iterable[TableRow], notes: Notes) -> Iterator[TableRow]:
    """The rows that are not comments. One that begins with `# ` and looks like data is named in a warning."""
    for row in rows:
        if not is_comment(row.cells):
            yield row
        elif _looks_like_data(row.cells):
            notes.add_warning(
                row.place, "begins with `#`, so it is a comment and was not read; remove the `#` if it is data"
            )


def _looks_like_data(cells: Mapping[int, Cell]) -> bool:
    """Whether a comment has more cells than its first, and they do not explain columns, as those of a template do.

    A row that a person marked with a cell `#` of its own is a comment with any content.
    """
    first, *others = (cell for _, cell in sorted(cells.items()))
    explains = all(isinstance(cell, str) and _EXPLANATION.fullmatch(cell) for cell in others)
    return first != "#" and bool(others) and not explains


def names_total(text: str, *, is_sku: bool) -> bool:
    """Whether the name in a row says that the row is the sum of others. A SKU may begin so: `TOTAL-48V`."""
    words = [word.strip(":.") for word in fold_text(text).replace("-", " ").split()]
    if not words or len(words) > MAX_WORDS_OF_A_TOTAL:
        return False
    if is_sku:
        return all(_TOTAL.fullmatch(word) or word in _KINDS_OF_TOTAL for word in words)
    return any(_TOTAL.fullmatch(word) for word in (words[0], words[-1]))


def is_footnote(cells: Mapping[int, Cell]) -> bool:
    """Whether a row has one cell only, with a remark about the others."""
    [*values] = cells.values()
    if len(values) != 1 or not isinstance(values[0], str):
        return False
    return len(values[0].split()) >= MIN_WORDS_OF_A_REMARK or _FOOTNOTE.match(fold_text(values[0])) is not None


def names_product(cell: Cell) -> bool:
    """Whether a cell is what people call the column with the SKU or the part."""
    if not isinstance(cell, str) or len(cell) > MAX_HEADER_LENGTH:
        return False
    key = build_name_key(cell)
    return "sku" in build_synonym_index("Battery").get(key, ()) or "part" in build_synonym_index("Component").get(
        key, ()
    )


def parse_cell(text: str) -> Cell | None:
    """The cell of a text, without blanks around it; None if it is empty."""
    text = text.strip(BLANKS)
    if text.startswith("=") and len(text) > 1:
        return InvalidCell(f"is {quote_text(text)}, a formula written as text; enter its result")
    if text in _FORMULA_ERRORS or _OFFICE_ERROR.fullmatch(text):
        return InvalidCell(f"is {text}; correct the formula")
    return text or None


def describe_cell(cell: Cell) -> str:  # noqa: PLR0911 (a sentence for each kind of cell)
    """A cell in words, for a sentence that says what it should have been."""
    match cell:
        case FormattedNumber(text, unit):
            return f"the number {text}, which its number format shows as {unit or 'something else'}"
        case bool():
            return "a boolean (true or false)"
        case NumberText(text):
            return f"the number {text}"
        case PercentCell(text):
            return f"{text} %, a percentage"
        case DateCell(text):
            return f"the date {text}"
        case InvalidCell(says):
            return says
        case _:
            return quote_text(cell)
