"""`bpc check`: what is wrong in files before they are sent, cell by cell. Needs no database, service or settings.

Files are untrusted: whatever is larger than a small text is read, and annotated, in a child process with limits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from service_jobs import LimitExceeded

from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_count,
    print_json,
    print_line,
    print_table,
    read_bytes,
    replace_file,
    require_new_file,
)
from bpc.cli.support.untrusted import UntrustedFiles, open_untrusted
from bpc.core.documents.forms.csv_copy import SHEET, copy_csv
from bpc.core.documents.forms.document_check import (
    CheckNote,
    Examination,
    OpenCell,
    check_facts,
    examine_document,
    locate_open_cells,
    place_missing,
)
from bpc.core.documents.forms.xlsx_annotation import CellMark, annotate_workbook
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import detect_mime_type
from bpc.core.documents.xlsx.package import WorkbookUnreadable
from bpc.core.errors import Invalid
from bpc.core.exports.data_points import Category
from bpc.core.facts.findings import SEVERITIES
from bpc.core.formats.file_types import CSV, JSON, XLSX
from bpc.printing.table_workbook import write_text_workbook

MIME_TYPES: Final[Mapping[str, str]] = {".xlsx": XLSX, ".xlsm": XLSX, ".csv": CSV, ".json": JSON}
COLUMNS: Final = ("SEVERITY", "KIND", "PLACE", "SKU", "MEMBER", "POINT", "SAYS")


@dataclass(slots=True)
class CheckedFile:
    """A file, and everything that is said about it."""

    name: str
    content: bytes
    examination: Examination
    notes: list[CheckNote] = field(default_factory=list)

    @property
    def mime_type(self) -> str:
        return find_mime_type(self.name)


def find_mime_type(name: str) -> str:
    """The type that the name of a file suggests; the first bytes decide."""
    return MIME_TYPES.get(Path(name).suffix.lower(), "application/octet-stream")


async def check_files(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Spreadsheets, CSV or JSON.")],
    kind: Annotated[
        Literal["BOM", "PCF", "DUE_DILIGENCE"] | None,
        typer.Option("--kind", help="Kind of document. [default: what each file looks like]"),
    ] = None,
    category: Annotated[
        Literal["ev", "lmt", "industrial"] | None,
        typer.Option("--category", help="Category of the batteries. [default: what the files say]"),
    ] = None,
    locale: Annotated[
        Literal["comma", "point"] | None,
        typer.Option("--locale", help="Decimal separator of numbers that are written as text."),
    ] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Count missing mandatory data points as errors.")
    ] = False,
    annotate: Annotated[
        Path | None,
        typer.Option("--annotate", metavar="OUT.xlsx", help="Write a copy with coloured and commented cells."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong in files, cell by cell; exit 1 if there is an error.

    Reads the files as the service would, and compares them with each other: values that cannot be read, values that
    cannot be true, and mandatory data points that are missing. Nothing is sent anywhere.

    \b
    bpc check battery.xlsx
    bpc check bom.csv pcf.json --category ev --complete
    bpc check battery.xlsx --annotate battery-checked.xlsx
    """
    if annotate is not None and len(files) > 1:
        raise typer.BadParameter("--annotate takes one FILE.")
    if annotate is not None:
        require_new_file(annotate)
    contents = {name: read_bytes(name) for name in files}
    async with open_untrusted() as files_pool:
        checker = _Checker(files_pool, kind, category, ReadOptions(locale=locale))
        results = await checker.check(contents)
        if complete:
            for file in results:
                file.notes = [_require_complete(note) for note in file.notes]
        if annotate is not None:
            replace_file(annotate, await checker.annotate(results[0]))
    _print_results(results, annotate, as_json=as_json)
    if any(note.severity == "error" for file in results for note in file.notes):
        raise typer.Exit(REFUSED)


def _require_complete(note: CheckNote) -> CheckNote:
    return replace(note, severity="error") if note.kind == "missing" else note


class _Checker:
    """Checks files with some options."""

    def __init__(
        self, files_pool: UntrustedFiles, kind: str | None, category: Category | None, options: ReadOptions
    ) -> None:
        self._untrusted, self._kind, self._category, self._options = files_pool, kind, category, options

    async def check(self, contents: Mapping[str, bytes]) -> list[CheckedFile]:
        files = [CheckedFile(name, content, await self._examine(name, content)) for name, content in contents.items()]
        implausible, missing = check_facts([file.examination for file in files], self._category)
        for file, notes in zip(files, implausible, strict=True):
            file.notes = [*file.examination.notes, *notes]
        await self._add_missing(files, missing)
        return files

    async def _examine(self, name: str, content: bytes) -> Examination:
        try:
            return await self._untrusted.run(
                examine_document, (self._kind, find_mime_type(name), content, self._options, self._category), content
            )
        except LimitExceeded as error:
            says = f"{error.says}; split the document"
            return Examination((), (), (CheckNote(severity="error", kind="problem", place="$", says=says),))

    async def _add_missing(self, files: Sequence[CheckedFile], missing: Sequence[CheckNote]) -> None:
        """Each missing value belongs to the file that has a cell for it, else to the first that has the battery."""
        left = list(missing)
        for file in files:
            cells = [OpenCell(note.fact_type or "", note.sku or "", member) for note in left for member in note.members]
            arguments = (file.examination.kinds, file.mime_type, file.content, cells)
            places = await self._untrusted.run(locate_open_cells, arguments, file.content) if cells else {}
            notes_with_places = [place_missing(note, places) for note in left]
            file.notes += [note for note in notes_with_places if note.place]
            left = [note for note in notes_with_places if not note.place]
        for note in left:
            owner = next((file for file in files if _has_battery(file, note.sku)), files[0])
            owner.notes.append(replace(note, place="$"))

    async def annotate(self, file: CheckedFile) -> bytes:
        """A copy of the file as a workbook."""
        notes, content = file.notes, file.content
        match detect_mime_type(file.mime_type, content):
            case mime_type if mime_type == CSV:
                copy = await self._untrusted.run(copy_csv, (file.examination.kinds, content), content)
                if copy is None:
                    raise Invalid(f"`{file.name}` is not text", fix="check it without --annotate")
                notes = [
                    replace(
                        note,
                        place=copy.translate_place(note.place),
                        other_places=tuple(copy.translate_place(place) for place in note.other_places),
                    )
                    for note in notes
                ]
                content = write_text_workbook(SHEET, copy.rows)
            case mime_type if mime_type != XLSX:
                raise Invalid(
                    f"`{file.name}` is not a table", fix="--annotate is for XLSX and CSV; use --json for other files"
                )
            case _:
                pass
        marks = [
            CellMark(place, note.severity, note.says) for note in notes for place in (note.place, *note.other_places)
        ]
        rows = [COLUMNS, *(_build_row(note) for note in notes)]
        try:
            return await self._untrusted.run(annotate_workbook, (content, marks, rows), content)
        except (WorkbookUnreadable, LimitExceeded) as error:
            says = error.says if isinstance(error, LimitExceeded) else str(error)
            raise Invalid(f"`{file.name}` {says}", fix="check it without --annotate") from error


def _has_battery(file: CheckedFile, sku: str | None) -> bool:
    return any(fact.fact_key == f"battery:{sku}" for fact in file.examination.facts)


def _build_row(note: CheckNote) -> tuple[str, ...]:
    points = ", ".join(str(number) for number in note.points)
    return note.severity, note.kind, note.place, note.sku or "", ", ".join(note.members), points, note.says


def _print_results(files: Sequence[CheckedFile], annotated_copy: Path | None, *, as_json: bool) -> None:
    notes = [note for file in files for note in file.notes]
    errors, warnings = (sum(note.severity == severity for note in notes) for severity in ("error", "warning"))
    if as_json:
        print_json({"files": [_build_json(file) for file in files], "errors": errors, "warnings": warnings})
        return
    for file in files:
        kinds = " and ".join(file.examination.kinds) or "nothing"
        print_line(f"{file.name}: read as {kinds}, {format_count(len(file.examination.facts), 'fact')}", bold=True)
        if file.notes:
            notes_of_file = sorted(file.notes, key=lambda note: SEVERITIES.index(note.severity))
            print_table(COLUMNS, [_build_row(note) for note in notes_of_file])
    summary = f"{format_count(errors, 'error')}, {format_count(warnings, 'warning')}"
    print_line(summary, colour="red" if errors else None)
    if annotated_copy is not None:
        print_line(f"wrote {annotated_copy}")


def _build_json(file: CheckedFile) -> dict[str, object]:
    return {
        "file": file.name,
        "kinds": list(file.examination.kinds),
        "fact_count": len(file.examination.facts),
        "notes": [
            {
                "severity": note.severity,
                "kind": note.kind,
                "place": note.place,
                "other_places": list(note.other_places),
                "message": note.says,
                "sku": note.sku,
                "fact_type": note.fact_type,
                "members": list(note.members),
                "points": list(note.points),
                "code": note.code,
            }
            for note in file.notes
        ],
    }
