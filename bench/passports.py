"""What one passport costs: compile, sign, QR, verify; signing beside the library's bare Ed25519."""

from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench import Table, measure_medians, measure_turns
from bpc.core.audit.signing import Seed, Signer
from bpc.core.formats.hashes import sha256
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.language.package import read_program
from bpc.core.language.ready_rules import load_program
from bpc.core.passport.bundle import Bundle, read_bundle, write_bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import read_input
from bpc.core.passport.qr import draw_qr_png
from bpc.core.verify.bundle import verify_bundle

ROOT = Path(__file__).parents[1]
FOLDERS = {"first": ROOT / "examples" / "first", "reference": ROOT / "tests" / "core" / "golden" / "reference-2"}


def run() -> Iterable[Table]:
    for name, folder in FOLDERS.items():
        yield _measure_stages(name, folder)
    yield _measure_signing()
    yield _measure_checking()


def _measure_stages(name: str, folder: Path) -> Table:
    rules = (folder / "rules.bpc").read_bytes()
    compile_input = read_input((folder / "input.json").read_bytes(), rules=rules)
    machine = Machine(read_program(rules))
    times = measure_medians(
        {
            "compile, rules checked and generated before": lambda: compile_passport(compile_input, machine=machine),
            "compile, from rule text": lambda: compile_passport(compile_input, machine=Machine(read_program(rules))),
        },
        rounds=9,
    )
    compiled = compile_passport(compile_input, machine=machine)
    sizes = f"{len(compiled.payload):,} bytes of payload, {len(compiled.proof):,} of proof"
    return Table(
        title=f"One {name} passport: {sizes}",
        columns=("", "ms"),
        rows=tuple((what, f"{took * 1e3:.2f}") for what, took in times.items()),
    )


def _measure_checking() -> Table:
    small, reference = (write_bundle(issue_example(folder)) for folder in FOLDERS.values())
    text = read_bundle(small)["qr.txt"].decode()
    timings = measure_turns(
        {
            "QR code as PNG": lambda: draw_qr_png(text),
            "verify a small bundle, rules read before": lambda: verify_bundle(small),
            "verify a reference bundle, rules read before": lambda: verify_bundle(reference),
            "verify a reference bundle, rules not read before": lambda: verify_with_new_rules(reference),
        },
        rounds=15,
    )
    return Table(
        title="What comes after compiling",
        columns=("", "ms", "middle half"),
        rows=tuple(
            (what, f"{took.median * 1e3:.2f}", f"{took.low * 1e3:.2f}–{took.high * 1e3:.2f}")
            for what, took in timings.items()
        ),
        note="goals: the QR code below 5 ms, the reference bundle below 90 ms",
    )


def verify_with_new_rules(bundle: bytes) -> None:
    """Verify as the first verification of a process does."""
    load_program.cache_clear()
    load_machine.cache_clear()
    verify_bundle(bundle)


def issue_example(folder: Path) -> Bundle:
    """The passport of a folder with rules and input, signed with a key that everybody knows."""
    rules = (folder / "rules.bpc").read_bytes()
    compile_input = read_input((folder / "input.json").read_bytes(), rules=rules)
    return issue_passport(compile_input, compile_passport(compile_input), Signer(Seed(bytes(range(32)))))


def _measure_signing() -> Table:
    seed = Seed(bytes(range(32)))
    digest = sha256(b"receipt")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    signer = Signer(seed)
    times = measure_medians({"bare Ed25519": lambda: key.sign(digest), "bpc": lambda: signer.sign(digest)})
    bare = times["bare Ed25519"]
    return Table(
        title="Signing a receipt's hash",
        columns=("", "µs", "of bare"),
        rows=tuple((what, f"{took * 1e6:.1f}", f"{took / bare:.2f}") for what, took in times.items()),
        note="goal: within 1.2 of bare",
    )
