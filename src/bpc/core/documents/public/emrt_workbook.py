"""RMI Extended Minerals Reporting Template (EMRT) 2.x: a workbook in, due diligence for each product of its list out.

Recognised by its sheets `Declaration` and `Smelter List`, in any order. The template is filled in in several languages;
what is read has marks that all of them share: questions begin with `1)` to `7)` and `A.` to `G.`, minerals are named.

    Declaration     supplier, the minerals of Art. 47 that the product has, the policy's address, risks by mineral
    Product List    the SKU: the requester's product number, else the responder's

Smelters and mines are counted; no fact has them. A cell that begins with `=` or `#`, which the template forbids, is
left out with a warning.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol

from bpc.core.documents import Notes
from bpc.core.documents.cells import Cell, FormattedNumber, InvalidCell, Sheet, TableRow
from bpc.core.documents.elements import FactElement, NumberText, RawValue
from bpc.core.documents.fact_members import normalize_name
from bpc.core.documents.public.mapping import shorten_identifier
from bpc.core.documents.public.sentences import is_address
from bpc.core.documents.public.unsupported_formats import explain_minerals_template
from bpc.core.formats.ascii_case import lower_ascii

KIND: Final = "DUE_DILIGENCE"
NAME: Final = "an Extended Minerals Reporting Template (EMRT)"
TITLE_ROWS: Final = 12
MAX_DECLARATION_ROWS: Final = 1_000  # the template has about a hundred
ANSWER_COLUMN: Final = 3
COMMENT_COLUMN: Final = 6

# The raw materials of Art. 47, and the two of the template that are not, by their names in its languages.
MINERALS: Final = {
    "cobalt": "cobalt kobalt cobalto コバルト 钴 코발트",
    "lithium": "lithium litio lítio lit リチウム 锂 리튬",
    "nickel": "nickel níquel niquel nichel nikiel ニッケル 镍 니켈",
    "natural graphite": "graphite graphit grafito grafite grafit 黒鉛 石墨 흑연",
    "copper": "copper kupfer cuivre cobre rame miedź 銅 铜 구리",
    "mica": "mica glimmer mika マイカ 雲母 云母 운모",
}
MATERIALS_OF_THE_REGULATION: Final = ("cobalt", "lithium", "nickel", "natural graphite")
_YES: Final = frozenset(["yes", "ja", "oui", "sí", "si", "sì", "sim", "tak", "はい", "是", "예", "네"])
_NO: Final = frozenset(["no", "nein", "non", "não", "nao", "nie", "いいえ", "否", "아니오", "아니요"])
_COMPANY_LABELS: Final = (
    "company name",
    "firmenname",
    "name des unternehmens",
    "unternehmensname",
    "nom de la société",
    "nom de l'entreprise",
    "nom de l’entreprise",
    "nombre de la empresa",
    "nombre de la compañía",
    "nome da empresa",
    "nome dell'azienda",
    "nome azienda",
    "会社名",
    "公司名称",
    "회사명",
    "회사 이름",
)
_QUESTION: Final = re.compile(r"\s*([1-9])\s*[).]\s")
_COMPANY_QUESTION: Final = re.compile(r"\s*([A-H])\s*[).]\s")
_WORD_BREAK: Final = re.compile(r"[\s,:(*)（）]+")
_FORBIDDEN_STARTS: Final = ("=", "#")


class TemplateSheet(Sheet, Protocol):
    """A sheet with the label that a person sees."""

    @property
    def label(self) -> str: ...


class Answer(NamedTuple):
    """An answer and its comment; None where the cell is empty."""

    value: str | None
    comment: str | None
    place: str
    comment_place: str


@dataclass(slots=True)
class MineralsDeclaration:
    """What the sheet `Declaration` says."""

    company: str | None = None
    company_place: str = ""
    by_mineral: dict[tuple[int, str], Answer] = field(default_factory=dict)
    by_letter: dict[str, Answer] = field(default_factory=dict)


def read_emrt(kind: str, sheets: Sequence[TemplateSheet], notes: Notes) -> list[FactElement] | None:
    """The elements of a minerals template; None if the workbook is not one."""
    by_name = {normalize_name(sheet.label).replace("_", ""): sheet for sheet in sheets}
    if "declaration" not in by_name or by_name.keys().isdisjoint({"smelterlist", "minelist"}):
        return None
    rows = list(islice(by_name["declaration"].read_rows(notes), MAX_DECLARATION_ROWS))
    refusal = _refuse_other_template(rows)
    if refusal is not None:
        notes.add_problem("$", refusal)
        return []
    if kind != KIND:
        notes.add_problem("$", f"is {NAME}; upload it as a document of kind {KIND}, not {kind}")
        return []
    declaration = _read_declaration(by_name["declaration"], rows, notes)
    members, places = _build_members(declaration, notes)
    products = _read_products(by_name["productlist"], notes) if "productlist" in by_name else {}
    if not products and notes.is_clean:
        notes.add_problem(
            "$",
            f"is {NAME} that names no product; ask its sender to choose the scope `Product` and to fill in the sheet"
            " `Product List`",
        )
    _warn_of_lists([by_name[name] for name in ("smelterlist", "minelist") if name in by_name], notes)
    return [
        FactElement("DueDiligence", place, {"sku": sku, **members}, places={"sku": place, **places})
        for sku, place in products.items()
    ]


def _refuse_other_template(rows: Sequence[TableRow]) -> str | None:
    words = [lower_ascii(text) for row in rows[:TITLE_ROWS] for text in _list_texts(row)]
    is_extended = any("extended minerals" in word or "emrt" in word for word in words)
    return None if is_extended else explain_minerals_template(words)


def _list_texts(row: TableRow) -> list[str]:
    return [cell for _, cell in sorted(row.cells.items()) if isinstance(cell, str)]


def _read_declaration(sheet: Sheet, rows: Iterable[TableRow], notes: Notes) -> MineralsDeclaration:
    declaration = MineralsDeclaration()
    columns = (ANSWER_COLUMN, COMMENT_COLUMN)
    number = 0
    for row in rows:
        label_column, label = next(
            ((at, cell) for at, cell in sorted(row.cells.items()) if isinstance(cell, str)), (0, "")
        )
        question, company_question = _QUESTION.match(label), _COMPANY_QUESTION.match(label)
        if question or company_question:
            columns = _find_columns(row, label_column) if question else columns
            number = int(question[1]) if question else 0
        if company_question:
            declaration.by_letter[company_question[1]] = _read_answer(sheet, row, columns, notes)
        elif not question and (mineral := parse_mineral(label)) is not None and number:
            declaration.by_mineral[number, mineral] = _read_answer(sheet, row, columns, notes)
        elif declaration.company is None and lower_ascii(label).startswith(_COMPANY_LABELS):
            values = [at for at in sorted(row.cells) if at > label_column]
            if values:
                declaration.company = _read_cell(sheet, row, values[0], notes)
                declaration.company_place = sheet.locate_cell(row.place, values[0], "company")
    return declaration


def _find_columns(row: TableRow, label_column: int) -> tuple[int, int]:
    """The columns of the answers and the comments: the headings beside a question."""
    headings = [at for at, cell in sorted(row.cells.items()) if at > label_column and isinstance(cell, str)]
    return (headings[0], headings[1]) if len(headings) > 1 else (ANSWER_COLUMN, COMMENT_COLUMN)


def parse_mineral(label: str) -> str | None:
    """The mineral that a label names, in any language of the template."""
    words = {lower_ascii(word) for word in _WORD_BREAK.split(label.strip())[:2]}
    return next((mineral for mineral, names in MINERALS.items() if not words.isdisjoint(names.split())), None)


def _read_answer(sheet: Sheet, row: TableRow, columns: tuple[int, int], notes: Notes) -> Answer:
    answer, comment = (_read_cell(sheet, row, column, notes) for column in columns)
    places = [sheet.locate_cell(row.place, column, "") for column in columns]
    return Answer(answer, comment, places[0], places[1])


def _read_cell(sheet: Sheet, row: TableRow, column: int, notes: Notes) -> str | None:
    """The text of a cell; None if it is empty or holds what the template forbids."""
    cell = row.cells.get(column)
    fault = _find_fault(cell)
    if fault is None:
        return _get_text(cell)
    notes.add_warning(sheet.locate_cell(row.place, column, ""), f"{fault}; it was left out. Enter the text itself")
    return None


def _find_fault(cell: Cell | None) -> str | None:
    """What is wrong with a cell that cannot be used."""
    if isinstance(cell, InvalidCell):
        return cell.says
    text = _get_text(cell)
    is_forbidden = text is not None and text.startswith(_FORBIDDEN_STARTS)
    return f"begins with `{text[0]}`, which the template forbids" if text is not None and is_forbidden else None


def _get_text(cell: Cell | None) -> str | None:
    text = cell.shown if isinstance(cell, FormattedNumber) else cell.text if isinstance(cell, NumberText) else cell
    return text.strip() or None if isinstance(text, str) else None


def _build_members(declaration: MineralsDeclaration, notes: Notes) -> tuple[dict[str, RawValue], dict[str, str]]:
    """The members of due diligence that hold for all products of the declaration, and their places.

    The place of a list is the cell of its first answer.
    """
    members: dict[str, RawValue] = {}
    places: dict[str, str] = {}
    if declaration.company is not None:
        members["supplier"], places["supplier"] = declaration.company, declaration.company_place
    materials = _list_materials(declaration, notes)
    if materials is not None:
        members["materials"] = [*materials]
        places |= _locate_first(declaration, "materials", (1, 2))
    risks = [risk for material in materials or () for risk in _list_risks(declaration, material)]
    if risks:
        members["risks"] = [*risks]
        places |= _locate_first(declaration, "risks", (3,))
    policy = declaration.by_letter.get("B") or declaration.by_letter.get("A")
    if policy is not None and policy.comment is not None and is_address(policy.comment):
        members["policy_url"], places["policy_url"] = policy.comment, policy.comment_place
    return members, places


def _locate_first(declaration: MineralsDeclaration, member: str, numbers: tuple[int, ...]) -> dict[str, str]:
    answers = (answer for (number, _), answer in declaration.by_mineral.items() if number in numbers)
    first = next((answer for answer in answers if answer.value is not None), None)
    return {} if first is None else {member: first.place}


def _list_materials(declaration: MineralsDeclaration, notes: Notes) -> list[str] | None:
    """The materials of the Regulation that the products have; None if the declaration does not say."""
    materials: list[str] = []
    has_answer = False
    for material in MATERIALS_OF_THE_REGULATION:
        used_answer, contained_answer = (declaration.by_mineral.get((number, material)) for number in (1, 2))
        answer = (
            contained_answer if contained_answer is not None and contained_answer.value is not None else used_answer
        )
        if answer is None or answer.value is None:
            continue
        word = lower_ascii(answer.value)
        has_answer = has_answer or word in _YES | _NO
        if word in _YES:
            materials.append(material)
        elif word not in _NO:
            notes.add_warning(answer.place, f"does not say whether the products have {material}; it was left out")
    return materials if has_answer else None


def _list_risks(declaration: MineralsDeclaration, material: str) -> Iterator[RawValue]:
    """The risk that a material comes from a conflict-affected or high-risk area: question 3."""
    answer = declaration.by_mineral.get((3, material))
    if answer is not None and answer.value is not None and lower_ascii(answer.value) not in _NO:
        finding = f"{material}: {answer.value}" + (f", {answer.comment}" if answer.comment else "")
        yield {"category": "conflict-affected and high-risk areas", "finding": finding}


def _read_products(sheet: Sheet, notes: Notes) -> dict[str, str]:
    """The SKU of each product, with the place of its cell."""
    columns: list[int] = []
    products: dict[str, str] = {}
    for row in sheet.read_rows(notes):
        if not columns:
            columns = _find_number_columns(row)
            continue
        for column in columns:
            cell, place = row.cells.get(column), sheet.locate_cell(row.place, column, "product number")
            text, fault = _get_text(cell), _find_fault(cell)
            if fault is not None:
                notes.add_problem(place, f"{fault}; it must be the number of a product")
                break
            if text is not None:
                products.setdefault(shorten_identifier(text) or text, place)
                break
    return products


def _find_number_columns(row: TableRow) -> list[int]:
    """The columns of product numbers, the requester's first; none if the row is not the heading."""
    headings = {at: lower_ascii(cell) for at, cell in row.cells.items() if isinstance(cell, str)}
    numbers = sorted(at for at, heading in headings.items() if "product" in heading and "number" in heading)
    if not numbers:  # another language: the number is the column that must be filled in
        numbers = sorted(at for at, heading in headings.items() if "(*)" in heading and len(headings) > 1)[:1]
    return sorted(numbers, key=lambda at: "request" not in headings[at])


def _warn_of_lists(sheets: Iterable[TemplateSheet], notes: Notes) -> None:
    for sheet in sheets:
        rows = (row for row in sheet.read_rows(notes) if any(parse_mineral(text) for text in _list_texts(row)))
        count = sum(1 for _ in rows)
        if count:
            notes.add_warning(
                sheet.name, f"has {count} entries with a mineral; no fact has them, so they were left out"
            )
