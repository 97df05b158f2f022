"""`bpc template`: an empty form for suppliers, as a table or as JSON. Needs no database and no settings.

Only what is missing for products is asked of the service.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer
import xlsxwriter  # type: ignore[import-untyped]

from bpc.cli.support.arguments import UrlOption, require_utf8
from bpc.cli.support.completion import complete_skus
from bpc.cli.support.output import AsJson, print_bytes, print_result, read_bytes, replace_file, require_new_file
from bpc.cli.support.untrusted import open_untrusted
from bpc.core.documents.fact_members import list_columns
from bpc.core.documents.forms.missing import MissingProduct, read_missing_products
from bpc.core.documents.forms.template_plan import AskedMember, build_template
from bpc.core.documents.forms.template_words import Language
from bpc.core.errors import Conflict, Invalid
from bpc.core.exports.data_points import CATEGORIES, Category
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Record, Type
from bpc.printing.template_workbook import CREATED_AT, write_template_workbook

Column: TypeAlias = tuple[str, Type, str]
CellValue: TypeAlias = str | int | bool
Rows: TypeAlias = Sequence[Mapping[str, CellValue]]
Workbook: TypeAlias = Any  # the library that writes spreadsheets has no types
Worksheet: TypeAlias = Any
CellFormat: TypeAlias = Any

# For each kind of document: the sheets, and the fact type of their rows.
SHEETS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "BOM": (("Battery", "Battery"), ("Components", "Component")),
    "PCF": (("PCF", "PCF"),),
    "DUE_DILIGENCE": (("Due diligence", "DueDiligence"),),
}
# Numbers are texts here, so that no digit is lost.
EXAMPLES: Final[Mapping[str, Rows]] = {
    "Battery": (
        {
            "sku": "SKU-1",
            "name": "Example pack 75",
            "category": "ev",
            "has_bms": True,
            "manufacturer_name": "Example Cells GmbH",
            "manufactured_on": "2027-02-18",
            "mass_kg": "450.25",
            "chemistry": "NMC811",
            "critical_raw_materials": "cobalt; lithium; natural graphite",
            "hazardous_substances[1].name": "lithium hexafluorophosphate",
            "hazardous_substances[1].concentration_pct": "1.2",
            "capacity_kwh": "75.5",
            "nominal_voltage_v": "400",
            "expected_cycles": "1500",
        },
    ),
    "Component": (
        {
            "sku": "SKU-1",
            "part": "cell",
            "material": "NMC811",
            "mass_g": "310000.5",
            "quantity": "96",
            "critical": True,
        },
        {"sku": "SKU-1", "part": "housing", "material": "aluminium", "mass_g": "42000", "critical": False},
    ),
    "PCF": (
        {
            "sku": "SKU-1",
            "year": "2027",
            "total_gco2e": "5890000.5",
            "raw_material_gco2e": "3900000",
            "production_gco2e": "1700000.5",
            "distribution_gco2e": "90000",
            "end_of_life_gco2e": "200000",
            "verified_on": "2027-01-15",
        },
    ),
    "DueDiligence": (
        {
            "sku": "SKU-1",
            "supplier": "Example Mining Ltd",
            "materials": "cobalt; nickel",
            "risks[1].category": "working conditions",
            "risks[1].mitigation": "audited every year",
            "audited_on": "2026-11-30",
            "conforms": True,
        },
    ),
}


def make_template(kind: str, form: str, *, example: bool) -> bytes:
    """The template for a kind of document, empty or with the example."""
    match form:
        case "xlsx":
            return _write_xlsx(kind, example=example)
        case "csv":
            return _write_csv(kind, example=example)
        case _:
            return _write_json(kind, example=example)


def list_template_columns(fact_type: str) -> list[Column]:
    """A column for every member, in the order of the schema."""
    members = SCHEMA_MEMBERS[FactRecordType(fact_type, SCHEMA_VERSION)]
    return [column for name, member in members.items() for column in list_columns(name, member)]


def explain_column(column: Column) -> str:
    """What a column means and how to write it."""
    name, kind, says = column
    says = says.replace("`", "")
    return f"# {says} ({_describe_type(kind)})" if name == "sku" else f"{says} ({_describe_type(kind)})"


def _describe_type(kind: Type) -> str:
    match kind:
        case Dec(scale):
            return f"number, at most {scale} decimals"
        case List():
            return "texts, separated by ;"
        case _:
            return _TYPE_WORDS[kind]


_TYPE_WORDS: Final[Mapping[object, str]] = {BOOL: "yes or no", INT: "whole number", DATE: "2027-02-18", TEXT: "text"}


# --- XLSX --------------------------------------------------------------------------------------------------------


def _write_xlsx(kind: str, *, example: bool) -> bytes:
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        book.set_properties({"title": f"{kind} for a battery passport", "created": CREATED_AT})
        bold = book.add_format({"bold": True, "bottom": 1})
        plain = book.add_format({"italic": True, "font_color": "#606060", "text_wrap": True, "valign": "top"})
        forms = _CellFormats(book)
        for name, fact_type in SHEETS[kind]:
            sheet = book.add_worksheet(name)
            _fill_sheet(
                sheet, list_template_columns(fact_type), EXAMPLES[fact_type] if example else (), forms, bold, plain
            )
    return buffer.getvalue()


class _CellFormats:
    """The cell format of each type: text stays as typed, a date looks like a date."""

    def __init__(self, book: Workbook) -> None:
        self._text = book.add_format({"num_format": "@"})
        self._date = book.add_format({"num_format": "yyyy-mm-dd"})
        self._plain = book.add_format()

    def for_type(self, kind: Type) -> CellFormat:
        if isinstance(kind, List) or kind == TEXT:
            return self._text
        return self._date if kind == DATE else self._plain


def _fill_sheet(
    sheet: Worksheet, header: list[Column], rows: Rows, forms: _CellFormats, bold: CellFormat, plain: CellFormat
) -> None:
    sheet.freeze_panes(2, 1)
    sheet.set_row(1, 60)
    for index, (name, kind, says) in enumerate(header):
        sheet.set_column(index, index, max(14, len(name) + 2), forms.for_type(kind))
        sheet.write_string(0, index, name, bold)
        sheet.write_string(1, index, explain_column((name, kind, says)), plain)
        if kind == BOOL:
            sheet.data_validation(2, index, 10_000, index, {"validate": "list", "source": ["yes", "no"]})
        for number, row in enumerate(rows, 2):
            if name in row:
                _write_cell(sheet, number, index, kind, row[name], forms.for_type(kind))


def _write_cell(sheet: Worksheet, row: int, column: int, kind: Type, value: CellValue, form: CellFormat) -> None:
    if kind == BOOL:
        sheet.write_string(row, column, "yes" if value else "no", form)
    elif kind == DATE:
        sheet.write_datetime(row, column, datetime.fromisoformat(str(value)), form)
    elif kind == INT or isinstance(kind, Dec):
        sheet.write_number(row, column, float(value), form)
    else:
        sheet.write_string(row, column, str(value), form)


# --- CSV and JSON ------------------------------------------------------------------------------------------------


def _write_csv(kind: str, *, example: bool) -> bytes:
    """CSV with the byte order mark that tells Excel it is UTF-8, and CRLF line ends."""
    columns_by_name: dict[str, Column] = {}
    for _, fact_type in SHEETS[kind]:
        columns_by_name |= {
            column[0]: column for column in list_template_columns(fact_type) if column[0] not in columns_by_name
        }
    buffer = io.StringIO()
    lines = csv.writer(buffer)
    lines.writerow(columns_by_name)
    lines.writerow([explain_column(column) for column in columns_by_name.values()])
    rows = [row for _, fact_type in SHEETS[kind] for row in EXAMPLES[fact_type]] if example else []
    for row in rows:
        lines.writerow([_format_cell(row[name]) if name in row else "" for name in columns_by_name])
    return buffer.getvalue().encode("utf-8-sig")


def _format_cell(value: CellValue) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _write_json(kind: str, *, example: bool) -> bytes:
    if kind != "BOM":
        fact_type = SHEETS[kind][0][1]
        document: object = _make_object(fact_type, EXAMPLES[fact_type][0] if example else None)
    else:
        [battery] = EXAMPLES["Battery"]
        parts = [_make_object("Component", part) for part in EXAMPLES["Component"]]
        document = {
            "battery": _make_object("Battery", battery if example else None),
            "components": parts if example else [_make_object("Component", None)],
        }
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def _make_object(fact_type: str, row: Mapping[str, CellValue] | None) -> dict[str, object]:
    """The members of the row, or all members with empty values."""
    members = SCHEMA_MEMBERS[FactRecordType(fact_type, SCHEMA_VERSION)]
    if row is None:
        return {name: _make_empty(member.type) for name, member in members.items()}
    document: dict[str, object] = {}
    for name, value in row.items():
        base, _, member = name.partition("[1].")
        if member:
            records = document.setdefault(base, [{}])
            if isinstance(records, list):
                records[0][member] = value
        elif isinstance(members[base].type, List):
            document[base] = [part.strip() for part in str(value).split(";")]
        else:
            document[base] = value
    return document


def _make_empty(kind: Type) -> object:
    match kind:
        case List(Record(members)):
            return [dict.fromkeys(name for name, _ in members)]
        case List():
            return []
        case _:
            return None


async def make_category_template(
    category: Category | None, language: Language, missing: Sequence[str], url: str | None
) -> tuple[Category, bytes]:
    """The template of a category, or of what the files or products in `missing` still lack; and its category."""
    if not missing:
        if category is None:
            raise Invalid("a template needs a category or a list of what is missing", fix="add --category or --missing")
        return category, write_template_workbook(build_template(category, language))
    products = await _collect_missing(category, missing, url)
    categories = [each for each in CATEGORIES if each in {category or product.category for product in products}]
    if not categories:
        raise Invalid(
            "the category of these products is not known, and it decides what is mandatory",
            fix="add --category ev, lmt or industrial",
        )
    if len(categories) > 1:
        raise Invalid(
            f"these products have several categories: {', '.join(categories)}",
            fix="write a template for each, from a list of its products",
        )
    members_by_sku: dict[str, dict[AskedMember, None]] = {}
    for product in products:
        members_by_sku.setdefault(product.sku, {}).update(dict.fromkeys(product.members))
    if not any(members_by_sku.values()):
        raise Conflict("nothing is missing, so there is nothing to ask for", fix="send no template")
    plan = build_template(categories[0], language, {sku: tuple(members) for sku, members in members_by_sku.items()})
    return plan.category, write_template_workbook(plan)


async def _collect_missing(category: Category | None, missing: Sequence[str], url: str | None) -> list[MissingProduct]:
    """What files say is missing, and what the service says of the products that are named."""
    products: list[MissingProduct] = []
    skus = [each for each in missing if not _names_a_file(each)]
    async with open_untrusted() as files_pool:
        for file in [each for each in missing if _names_a_file(each)]:
            content = read_bytes(file)
            products_of_file = await files_pool.run(read_missing_products, (content, category), content)
            if products_of_file is None:
                raise Invalid(
                    f"`{file}` is neither a list of what is missing nor a document about a battery",
                    fix="use the output of `bpc passports check --json`, a data-points export, or a bill of materials",
                )
            products += products_of_file
    if skus:
        from bpc.cli.online.missing import ask_missing_products  # noqa: PLC0415 (the client is slow to import)

        products += await ask_missing_products([require_utf8("the SKU", sku) for sku in skus], url)
    return products


def _names_a_file(text: str) -> bool:
    """Whether it is a file, or looks like the name of one; anything else is an article number."""
    return text == "-" or text.lower().endswith((".json", ".csv", ".xlsx")) or Path(text).is_file()


async def write_template(
    kind: Annotated[
        Literal["BOM", "PCF", "DUE_DILIGENCE"] | None, typer.Argument(help="Kind of document. [default: BOM]")
    ] = None,
    form: Annotated[Literal["xlsx", "csv", "json"], typer.Option("--format", help="File format.")] = "xlsx",
    example: Annotated[bool, typer.Option("--example", help="Fill it in with an example.")] = False,
    category: Annotated[
        Literal["ev", "lmt", "industrial"] | None,
        typer.Option("--category", help="Ask what a passport of this category needs, by sheets of Annex XIII."),
    ] = None,
    language: Annotated[
        Literal["en", "de"], typer.Option("--language", help="Language of a template by category.")
    ] = "en",
    missing: Annotated[
        list[str] | None,
        typer.Option(
            "--missing",
            metavar="SKU|FILE",
            autocompletion=complete_skus,
            help="Ask only for what is missing. Name a product, and the service says what it lacks; or name a file: "
            "JSON of `bpc passports check`, data points of a passport, or a document. May be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="New file; `-` prints it. [default: KIND.FORMAT]")
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Write an empty form for suppliers.

    The form (XLSX, CSV or JSON) has one column for each value, and a row that explains it. Suppliers fill in what they
    know; empty cells are ignored. With --category or --missing it is a workbook with the sheets of Annex XIII, marks
    for what is mandatory, lists to choose from and citations. docs/templates.md has the details.

    \b
    bpc template BOM --out bom.xlsx
    bpc template PCF --format csv --example --out -
    bpc template --category ev --language de --out ev.xlsx
    bpc template --missing SKU-1 --missing SKU-2 --out missing.xlsx
    bpc template --missing readiness.json --out missing.xlsx
    """
    if category is not None or missing:
        if kind is not None or form != "xlsx" or example:
            raise typer.BadParameter("--category and --missing go without a kind, --format and --example.")
        category_name, content = await make_category_template(category, language, missing or (), url)
        name = f"{category_name}-missing.xlsx" if missing else f"{category_name}.xlsx"
    else:
        content = make_template(kind or "BOM", form, example=example)
        name = f"{(kind or 'BOM').lower().replace('_', '-')}.{form}"
    if out == Path("-"):
        print_bytes(content)
        return
    file = out or Path(name)
    require_new_file(file)
    replace_file(file, content)
    says = f"{file} is a filled-in example" if example else f"{file} is ready to be filled in"
    print_result({"out": file, "bytes": len(content)}, says, as_json=as_json)
