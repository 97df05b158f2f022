"""Engines: Ray and Spark compile batteries to the very bytes that a worker's own processes give.

They need an environment of their own, of a gigabyte: `make engines` creates it and runs these tests there.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from bpc.core.facts.snapshot import encode_fact_line
from bpc.core.formats.ids import BatteryId, PassportVersionId
from bpc.core.formats.timestamps import format_time
from bpc.core.items.row_batches import CompilerParts, SourceRow, compile_rows, get_compiler
from bpc.runtime.ray_pool import RayPool
from bpc.storage.items.arrow_batches import BatchCompiler, make_result_schema, make_source_table, read_results
from bpc.storage.items.chunk_work import ChunkRow, compile_chunk, encode_source
from tests.core.items import sample_layers as sample

pyarrow: Any = pytest.importorskip("pyarrow", reason="`make engines` installs and runs it")

COUNT = int(os.environ.get("ENGINE_ITEMS", "2000"))
ROOT = Path(__file__).parents[2]
AT = "2027-03-01T00:00:00.000000Z"
SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def parts() -> CompilerParts:
    return CompilerParts(tuple(sample.issue_model().entries.items()), sample.RUN)


@pytest.fixture(scope="module")
def ray_pool(monkeypatch_module: pytest.MonkeyPatch) -> Iterator[RayPool]:
    ray = pytest.importorskip("ray", reason="`make engines` installs and runs it")
    monkeypatch_module.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    yield RayPool()
    ray.shutdown()


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def make_chunk(first: int, count: int) -> bytes:
    rows = [sample.make_item_row(number) for number in range(first, first + count)]
    return encode_source(
        ChunkRow(
            BatteryId(UUID(str(row.subject_id))),
            PassportVersionId(row.passport_version_id),
            b"".join(map(encode_fact_line, row.facts)),
        )
        for row in rows
    )


def make_source_row(number: int) -> SourceRow:
    row = sample.make_item_row(number)
    return {
        "battery_id": str(row.subject_id),
        "passport_version_id": str(row.passport_version_id),
        "snapshot_id": str(row.snapshot_id),
        "issued_at": format_time(row.issued_at),
        "blinding_key": row.blinding_key,
        "facts": b"".join(map(encode_fact_line, row.facts)),
    }


async def test_a_ray_cluster_gives_the_bytes_of_a_child_process(ray_pool: RayPool, parts: CompilerParts) -> None:
    for first in range(0, COUNT, 500):
        source = make_chunk(first, 500)

        on_cluster = await ray_pool(compile_chunk, parts, source, SECRET, AT)

        assert on_cluster == compile_chunk(parts, source, SECRET, AT)
        assert len(on_cluster.items) == 500


async def test_what_fails_on_the_cluster_fails_here_with_the_same_words(ray_pool: RayPool) -> None:
    with pytest.raises(json.JSONDecodeError, match="Expecting value"):
        await ray_pool(json.loads, "not JSON")


# Ray Data copies its own deprecated settings, and warns of them.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data")
@pytest.mark.usefixtures("ray_pool")
def test_ray_data_gives_the_same_bytes(parts: CompilerParts) -> None:
    ray_data: Any = pytest.importorskip("ray.data", reason="`make engines` installs and runs it")
    rows = [make_source_row(number) for number in range(COUNT)]
    expected = compile_rows(get_compiler(parts), rows)

    dataset = ray_data.from_arrow([make_source_table(rows[at : at + 500]) for at in range(0, COUNT, 500)])
    compiled = dataset.map_batches(BatchCompiler(parts).compile_table, batch_format="pyarrow", batch_size=None)
    batches = compiled.iter_batches(batch_format="pyarrow", batch_size=None)
    results = {row["battery_id"]: row for batch in batches for row in read_results(batch)}

    assert [results[row["battery_id"]] for row in expected] == expected


def test_spark_gives_the_same_bytes(parts: CompilerParts, monkeypatch_module: pytest.MonkeyPatch) -> None:
    spark_sql: Any = pytest.importorskip("pyspark.sql", reason="`make engines` installs and runs it")
    arrow_types: Any = pytest.importorskip("pyspark.sql.pandas.types")
    monkeypatch_module.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch_module.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    rows = [make_source_row(number) for number in range(COUNT)]
    expected = compile_rows(get_compiler(parts), rows)
    compiler, schema = BatchCompiler(parts), arrow_types.from_arrow_schema(make_result_schema())

    spark = spark_sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = spark.createDataFrame(make_source_table(rows)).repartition(4)
        compiled = frame.mapInArrow(compiler.compile_batches, schema)
        results = {row["battery_id"]: row for row in read_results(compiled.toArrow())}
    finally:
        spark.stop()

    assert len(results) == COUNT
    assert [results[row["battery_id"]] for row in expected] == expected
