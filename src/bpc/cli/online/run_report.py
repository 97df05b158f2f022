"""What a run became: its rows, its failures, its numbers, as JSON and as a CSV file."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from bpc_client.models import CompileRun, CompileRunRow, ListedCompileRun

COUNT_COLUMNS: Final = ("fail_count", "warn_count", "waived_count")
REPORT_COLUMNS: Final = (
    "row",
    "sku",
    "status",
    "passport_version_id",
    "error_code",
    "error_message",
    "run_id",
    *COUNT_COLUMNS,
)


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run, and its rows if they were loaded."""

    run: CompileRun
    rows: Sequence[CompileRunRow]

    @property
    def has_failed(self) -> bool:
        return self.run.counts.get("FAILED", 0) > 0


def count_finished(rows: int, counts: Mapping[str, int]) -> int:
    return rows - counts.get("WAITING", 0) - counts.get("COMPILING", 0)


def number_rows(results: Sequence[RunResult]) -> Iterator[tuple[int, UUID, CompileRunRow]]:
    """The rows of all runs, each with its number in the whole and its run."""
    before = 0
    for result in results:
        for row in result.rows:
            yield before + row.row, result.run.run_id, row
        before += result.run.rows


def write_report(results: Sequence[RunResult]) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(REPORT_COLUMNS)
    for number, run_id, row in number_rows(results):
        code, message = ("", "") if row.error is None else (row.error.code, row.error.message)
        version = row.passport_version_id or ""
        ending = code, _escape_formula(message), run_id, *(getattr(row, name) for name in COUNT_COLUMNS)
        writer.writerow([number, _escape_formula(row.sku), row.status, version, *ending])
    return file.getvalue().encode()


def _escape_formula(text: str) -> str:
    """The text, quoted if a spreadsheet would take it for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def sum_counts(results: Sequence[RunResult]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for result in results:
        total.update(result.run.counts)
    return total


def list_failures(results: Sequence[RunResult]) -> list[dict[str, object]]:
    return [
        {
            "row": number,
            "sku": row.sku,
            "code": row.error.code,
            "message": row.error.message,
            "job_id": row.job_id,
            "run_id": run_id,
        }
        for number, run_id, row in number_rows(results)
        if row.error is not None
    ]


def run_to_json(run: CompileRun) -> dict[str, object]:
    return {
        **listed_run_to_json(run),
        "counts": dict(run.counts),
        "progress": run.progress,
        "fail_count": run.fail_count,
        "warn_count": run.warn_count,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
    }


def listed_run_to_json(run: CompileRun | ListedCompileRun) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "rule_package_version_id": run.rule_package_version_id,
        "activate": run.activate,
        "skip_unchanged": run.skip_unchanged,
        "rows": run.rows,
        "created_at": run.created_at,
        "cancelled_at": run.cancelled_at,
        "status": run.status,
    }
