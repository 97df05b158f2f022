"""What a whole rule package costs: checking, reading it again after an edit, its tests, compiling, proof, verifying.

`PACKAGE` is the package that is measured, `BATTERIES` the batteries of its categories; each gets a bill of materials of
300 parts. Peers say single rules, not packages: they are in the measurements `rules` and `package_rules`.
"""

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import Table
from bpc.cli.support.rule_files import read_package_texts
from bpc.core.audit.signing import Seed, Signer
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.package import PackageTexts, read_again, read_package, read_program
from bpc.core.language.testing.run import run_tests
from bpc.core.passport.bundle import write_bundle
from bpc.core.passport.compile import MAX_LIMITS, compile_passport, issue_passport
from bpc.core.passport.compile_input import CompileInput, read_input
from bpc.core.verify.bundle import verify_bundle

ROOT = Path(__file__).parents[1]
PACKAGE = "shipped:eu-battery"
BATTERIES = ROOT / "examples" / "eu-battery"
REFERENCE = ROOT / "examples" / "reference"
PROOF_LIMIT = 262_144


def run() -> Iterable[Table]:
    texts = read_package_texts(PACKAGE)
    yield _measure_reading(texts)
    yield _measure_compiling(texts.rules)


def _measure_reading(texts: PackageTexts) -> Table:
    reading = read_again(texts)
    lines = texts.rules.count(b"\n"), texts.tests.count(b"\n")
    program = reading.package.program
    if program is None:
        raise ValueError(f"{PACKAGE} has mistakes")
    with TemporaryDirectory() as folder:
        first = _time_command("rules", "check", PACKAGE, cache=None)
        later = _time_command("rules", "check", PACKAGE, cache=folder)
    rows = [
        ("bpc rules check, the whole command, tests not seen before", first),
        ("bpc rules check, the whole command, tests checked before", later),
        ("check the rules", _time_calls(lambda: read_package(texts.rules), 7)),
        ("check rules and tests", _time_calls(lambda: read_package(texts.rules, texts.tests), 3)),
    ]
    for part in ("rules", "tests"):
        for share in (1, 50, 90):
            edited = _edit(texts, part, share)
            again = _time_calls(lambda edited=edited: read_again(edited, reading), 7)  # type: ignore[misc]
            rows.append((f"read again after a comment at {share} % of the {part}", again))
    for what, edited in _list_edits(texts):
        again = _time_calls(lambda edited=edited: read_again(edited, reading), 7)  # type: ignore[misc]
        rows.append((f"read again after {what}", again))
    rows.append((f"run its {len(program.examples):,} examples", _time_calls(lambda: run_tests(program, seed=1), 1)))
    return Table(
        title=f"{PACKAGE}: {lines[0]:,} lines of rules, {lines[1]:,} lines of tests",
        columns=("", "ms", "fastest", "slowest"),
        rows=tuple((what, *times) for what, times in rows),
        note="CPU time; goals: the command below 300 ms, an edit below 50 ms",
    )


def _edit(texts: PackageTexts, part: str, share: int) -> PackageTexts:
    """The rules or the tests with a comment at the end of a line."""
    text: bytes = getattr(texts, part)
    at = text.index(b"\n", len(text) * share // 100)
    edited = text[:at] + b" -- edited" + text[at:]
    return texts._replace(rules=edited) if part == "rules" else texts._replace(tests=edited)


# Edits of the first files of the package that change what tests can name: the most work there is.
EDITS = (
    ("another value of a constant", b'date("2027-02-18")', b'date("2027-02-19")'),
    ("a new field", b"field duties.qr_code", b"field duties.new: Bool = true; field duties.qr_code"),
    ("another name of a requirement", b"require ENERGY", b"require ENERGIES"),
    ("a new member of an enumeration", b'INDUSTRIAL "industrial"', b'INDUSTRIAL "industrial" | OTHER "other"'),
    ("a new argument of a message", b'else "the category is missing', b'else "the category {category} is missing'),
    ("a typing mistake", b"enum Category =", b"enum Category"),
)


def _list_edits(texts: PackageTexts) -> Iterator[tuple[str, PackageTexts]]:
    for what, before, after in EDITS:
        if before not in texts.rules:
            raise ValueError(f"{PACKAGE} has no `{before.decode()}`")
        yield what, texts._replace(rules=texts.rules.replace(before, after, 1))


def _measure_compiling(rules: bytes) -> Table:
    machine = Machine(read_program(rules))
    rows = []
    for name, compile_input in _list_inputs(rules):
        passport = compile_passport(compile_input, machine=machine, limits=MAX_LIMITS)
        took = _time_calls(lambda inputs=compile_input: compile_passport(inputs, machine=machine, limits=MAX_LIMITS), 9)  # type: ignore[misc]
        bundle = write_bundle(issue_passport(compile_input, passport, Signer(Seed(bytes(range(32))))))
        if not verify_bundle(bundle).ok:
            raise ValueError(f"the passport of {name} does not verify")
        verify = _time_calls(lambda bundle=bundle: verify_bundle(bundle), 3)  # type: ignore[misc]
        rows.append(
            (name, took[0], took[1], took[2], f"{len(passport.proof):,}", f"{len(passport.payload):,}", verify[0])
        )
    return Table(
        title=f"One passport of {PACKAGE} with 300 parts",
        columns=("", "compile, ms", "fastest", "slowest", "proof, bytes", "payload", "verify, ms"),
        rows=tuple(rows),
        note=f"CPU time, rules checked and generated before; the proof's default limit is {PROOF_LIMIT:,} bytes",
    )


def _list_inputs(rules: bytes) -> Iterator[tuple[str, CompileInput]]:
    reference = read_input((REFERENCE / "input.json").read_bytes(), rules=rules)
    for file in sorted(BATTERIES.glob("*.json")):
        battery = json.loads(file.read_bytes())["battery"]
        sku = str(battery["sku"])
        sheet = SnapshotFact(fact_type="Battery", fact_key=f"battery:{sku}", schema_version=1, payload=battery)
        parts = [
            replace(fact, fact_key=fact.fact_key.replace(reference.product.sku, sku))
            for fact in reference.facts
            if fact.fact_type == "Component"
        ]
        product = replace(reference.product, sku=sku, name=str(battery["name"]))
        yield file.stem, replace(reference, product=product, facts=(sheet, *parts))


Times = tuple[str, str, str]


def _time_calls(call: Callable[[], object], times: int) -> Times:
    """The median, the fastest and the slowest in milliseconds of CPU time.

    As in the server of editors, garbage is collected between the calls.
    """
    taken = []
    gc.disable()
    for _ in range(times):
        gc.collect()
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    gc.enable()
    return _format_times(taken)


def _time_command(*arguments: str, cache: str | None) -> Times:
    """The whole command, five times, with the digests of checked tests in the folder `cache`; None is an empty one."""
    run_and_time = "main(sys.argv[1:]); print(time.process_time(), file=sys.stderr)"
    code = f"import sys, time; from bpc.cli.main import main; {run_and_time}"
    taken = []
    for _ in range(6):
        with TemporaryDirectory() as empty:
            run = subprocess.run(
                [sys.executable, "-c", code, *arguments],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "XDG_CACHE_HOME": cache or empty},
            )
        taken.append(float(run.stderr.split()[-1]))
    return _format_times(taken[1:])


def _format_times(taken: list[float]) -> Times:
    median, fastest, slowest = statistics.median(taken), min(taken), max(taken)
    return f"{median * 1e3:.0f}", f"{fastest * 1e3:.0f}", f"{slowest * 1e3:.0f}"
