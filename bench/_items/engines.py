"""The same batteries in child processes, as Ray tasks and by Ray Data: `python -m bench._items.engines FOLDER`.

FOLDER has `rows.pickle`, which `bench items` writes with BENCH_FOLDER. Every receipt and payload is compared with what
was stored when the batteries were issued. Engines take turns; the rows are cut into chunks of 1,024, as a run is. What
an engine took of a processor is counted over all processes below this one. Run it with the environment of
`make engines`.

    local       a pool of two processes, as a worker has it
    ray         tasks: `bpc.runtime.ray_pool`, as a worker with BPC_ITEMS_ENGINE=ray has it
    ray data    `Dataset.map_batches` over the same rows as Arrow; with checkpoints also from Parquet to Parquet
"""

import asyncio
import importlib
import logging
import os
import pickle
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import psutil

from bpc.core.formats.hashes import sha256
from bpc.core.items.content import restore_item
from bpc.core.items.row_batches import CompilerParts, SourceRow, compile_rows, get_compiler
from bpc.runtime.ray_pool import RayPool
from bpc.storage.items.arrow_batches import BatchCompiler, make_source_table

CHUNK: Final = 1024
ROUNDS: Final = int(os.environ.get("ENGINE_ROUNDS", "3"))
Chunk = tuple[CompilerParts, list[SourceRow]]
Results = Mapping[str, tuple[bytes, bytes]]  # of each version: the hash of its receipt, and its content
Engine = Callable[[Sequence[Chunk]], Awaitable[Results]]


def compile_part(parts: CompilerParts, rows: list[SourceRow]) -> list[tuple[str, bytes, bytes]]:
    results = compile_rows(get_compiler(parts), rows)
    return [(each["passport_version_id"], each["receipt_hash"] or b"", each["content"] or b"") for each in results]


def main(folder: Path) -> None:
    parts, rows = pickle.loads((folder / "rows.pickle").read_bytes())
    by_model: dict[int, list[SourceRow]] = defaultdict(list)
    expected = {row["passport_version_id"]: (receipt_hash, payload_hash) for _, row, receipt_hash, payload_hash in rows}
    for model, row, _, _ in rows:
        by_model[model].append(row)
    chunks = [
        (parts[model], some[at : at + CHUNK]) for model, some in by_model.items() for at in range(0, len(some), CHUNK)
    ]
    print(f"{len(rows):,} batteries of {len(parts)} models, {len(chunks)} chunks, {ROUNDS} rounds", flush=True)
    asyncio.run(compare_engines(chunks, expected))


async def compare_engines(chunks: Sequence[Chunk], expected: Mapping[str, tuple[bytes, bytes]]) -> None:
    ray_data: Any = importlib.import_module("ray.data")
    ray_pool = RayPool()
    await ray_pool(os.getpid)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray_data.DataContext.get_current().enable_progress_bars = False
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:

        async def run_local(work: Sequence[Chunk]) -> Results:
            loop = asyncio.get_running_loop()
            return _merge(
                await asyncio.gather(*(loop.run_in_executor(processes, compile_part, *chunk) for chunk in work))
            )

        async def run_tasks(work: Sequence[Chunk]) -> Results:
            places = asyncio.Semaphore(2)  # as many chunks as a worker with two jobs at once has

            async def run_one(chunk: Chunk) -> list[tuple[str, bytes, bytes]]:
                async with places:
                    return await ray_pool(compile_part, *chunk)

            return _merge(await asyncio.gather(*map(run_one, work)))

        async def run_data(work: Sequence[Chunk]) -> Results:
            return await asyncio.to_thread(map_batches, ray_data, work, None)

        async def run_data_with_checkpoints(work: Sequence[Chunk]) -> Results:
            with tempfile.TemporaryDirectory() as folder:
                return await asyncio.to_thread(map_batches, ray_data, work, Path(folder))

        engines: dict[str, Engine] = {
            "local": run_local,
            "ray tasks": run_tasks,
            "ray data": run_data,
            "ray data, checkpoints": run_data_with_checkpoints,
        }
        for name, run in engines.items():  # the first time, every process opens the models
            check(name, await run(chunks), expected)
        seconds: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for _ in range(ROUNDS):
            for name, run in engines.items():
                before = time.monotonic(), measure_cpu()
                results = await run(chunks)
                seconds[name].append((time.monotonic() - before[0], measure_cpu() - before[1]))
                check(name, results, expected)
        count = len(expected)
        local = statistics.median(cpu for _, cpu in seconds["local"])
        for name, times in seconds.items():
            walls, cpus = [wall for wall, _ in times], [cpu for _, cpu in times]
            print(
                f"{name:22} {count / statistics.median(walls):7,.0f} a second ({count / max(walls):,.0f} to"
                f" {count / min(walls):,.0f}), {statistics.median(cpus) / count * 1e6:7,.0f} µs of a processor each"
                f" ({min(cpus) / count * 1e6:,.0f} to {max(cpus) / count * 1e6:,.0f}),"
                f" {statistics.median(cpus) / local:.2f} of local",
                flush=True,
            )
        print(f"load {os.getloadavg()[0]:.0f}")


def map_batches(ray_data: Any, work: Sequence[Chunk], checkpoints: Path | None) -> Results:
    """Each model is a dataset of its own, because its parts are those of the function."""
    by_model: dict[int, tuple[CompilerParts, list[SourceRow]]] = {}
    for parts, rows in work:
        by_model.setdefault(id(parts), (parts, []))[1].extend(rows)
    merged: dict[str, tuple[bytes, bytes]] = {}
    for number, (parts, rows) in enumerate(by_model.values()):
        tables = [make_source_table(rows[at : at + CHUNK]) for at in range(0, len(rows), CHUNK)]
        if checkpoints is None:
            compiled = ray_data.from_arrow(tables).map_batches(
                BatchCompiler(parts).compile_table, batch_format="pyarrow", batch_size=None
            )
            results = [row for batch in compiled.iter_batches(batch_format="pyarrow") for row in batch.to_pylist()]
        else:
            results = map_files(ray_data, parts, tables, checkpoints / str(number))
        merged |= {
            each["passport_version_id"]: (each["receipt_hash"] or b"", each["content"] or b"") for each in results
        }
    return merged


def map_files(ray_data: Any, parts: CompilerParts, tables: Sequence[Any], folder: Path) -> list[Any]:
    """From Parquet to Parquet: what a checkpoint of Ray Data asks for."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    checkpoint: Any = importlib.import_module("ray.data.checkpoint")
    source, target = folder / "source", folder / "target"
    source.mkdir(parents=True)
    for number, table in enumerate(tables):
        parquet.write_table(table, source / f"{number}.parquet")
    context = ray_data.DataContext.get_current()
    context.checkpoint_config = checkpoint.CheckpointConfig(
        id_column="passport_version_id", checkpoint_path=str(folder / "checkpoints")
    )
    try:
        compiled = ray_data.read_parquet(str(source)).map_batches(
            BatchCompiler(parts).compile_table, batch_format="pyarrow", batch_size=None
        )
        compiled.write_parquet(str(target))
    finally:
        context.checkpoint_config = None
    rows: list[Any] = parquet.read_table(target).to_pylist()
    shutil.rmtree(folder)
    return rows


def check(name: str, results: Results, expected: Mapping[str, tuple[bytes, bytes]]) -> None:
    """Compare every receipt with the stored one, and of every tenth battery the payload, which its content gives."""
    if results.keys() != expected.keys():
        raise RuntimeError(f"{name}: {len(results):,} results for {len(expected):,} batteries")
    differing = [version for version, (receipt_hash, _) in results.items() if receipt_hash != expected[version][0]]
    for version in list(results)[::10]:
        artifacts = restore_item(results[version][1])
        if (artifacts.receipt_hash, sha256(artifacts.payload)) != expected[version]:
            differing.append(version)
    if differing:
        raise RuntimeError(f"{name}: {len(differing):,} batteries differ, such as {differing[0]}")


def measure_cpu() -> float:
    """Seconds of a processor of this process and all below it."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _merge(parts: Sequence[list[tuple[str, bytes, bytes]]]) -> Results:
    return {version: (receipt_hash, content) for part in parts for version, receipt_hash, content in part}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
