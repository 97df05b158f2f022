"""Batteries as record batches of Arrow, for any engine that maps a function over them: Ray Data, Spark, DuckDB, yours.

The function is pure. A batch of `SOURCE_COLUMNS` in, a batch of `RESULT_COLUMNS` out, row for row: nothing is read but
the batch and the parts that the function was made with. Needs `pyarrow`, which `bpc[parquet]` and `bpc[ray]` bring.

    parts = CompilerParts(bundle of the model, run)
    dataset.map_batches(BatchCompiler(parts).compile_table, batch_format="pyarrow")      Ray Data
    frame.mapInArrow(BatchCompiler(parts).compile_batches, schema)                       Spark
"""

import importlib
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, Final

from bpc.core.items.row_batches import CompilerParts, ResultRow, SourceRow, compile_rows, get_compiler

SOURCE_COLUMNS: Final = {
    **dict.fromkeys(("battery_id", "passport_version_id", "snapshot_id", "issued_at"), "string"),
    **dict.fromkeys(("blinding_key", "facts"), "binary"),
}
RESULT_COLUMNS: Final = {
    **dict.fromkeys(("battery_id", "passport_version_id"), "string"),
    **dict.fromkeys(
        ("receipt", "receipt_hash", "payload_hash", "proof_root_hash", "snapshot_hash", "content"), "binary"
    ),
    **dict.fromkeys(("fail", "warn"), "int32"),
    **dict.fromkeys(("error_code", "error"), "string"),
}


class BatchCompiler:
    """Compiles batches below one model. It can be sent to other machines: there the model is opened once a process."""

    def __init__(self, parts: CompilerParts) -> None:
        self._parts = parts

    def compile_batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """A batch of results for each batch, in their order."""
        pyarrow, schema = load_pyarrow(), make_result_schema()
        for batch in batches:
            results = compile_rows(get_compiler(self._parts), batch.to_pylist())
            yield pyarrow.RecordBatch.from_pylist(results, schema=schema)

    def compile_table(self, table: Any) -> Any:
        """The same for a table, which is some batches."""
        return load_pyarrow().Table.from_batches(
            list(self.compile_batches(table.to_batches())), schema=make_result_schema()
        )


def make_source_schema() -> Any:
    return _make_schema(SOURCE_COLUMNS)


def make_result_schema() -> Any:
    return _make_schema(RESULT_COLUMNS)


def make_source_table(rows: Iterable[SourceRow]) -> Any:
    """A table of rows as an engine takes them."""
    return load_pyarrow().Table.from_pylist(list(rows), schema=make_source_schema())


def read_results(table: Any) -> list[ResultRow]:
    """The rows of a table of results."""
    rows: list[ResultRow] = table.to_pylist()
    return rows


def load_pyarrow() -> ModuleType:
    return importlib.import_module("pyarrow")


def _make_schema(columns: dict[str, str]) -> Any:
    pyarrow = load_pyarrow()
    return pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in columns.items()])
