"""What one passport costs: compile, sign, QR, verify; signing beside the library's bare Ed25519."""

from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench import Table, medians
from bpc.core.bundle import read_bundle, write_bundle
from bpc.core.compile import compile_passport
from bpc.core.compile_input import read_input
from bpc.core.digest import sha256
from bpc.core.issue import issue
from bpc.core.qr import qr_png
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.package import checked_program
from bpc.core.signing import Seed, Signer
from bpc.core.verify.bundle import verify_bundle

EXAMPLES = Path(__file__).parents[1] / "examples"


def run() -> Iterable[Table]:
    for name in ("first", "reference"):
        yield _stages(name, EXAMPLES / name)
    yield _signing()
    yield _checking()


def _stages(name: str, folder: Path) -> Table:
    rules = (folder / "rules.bpc").read_bytes()
    given = read_input((folder / "input.json").read_bytes(), rules=rules)
    machine = Machine(checked_program(rules))
    times = medians(
        {
            "compile, rules checked and generated before": lambda: compile_passport(given, machine=machine),
            "compile, from rule text": lambda: compile_passport(given),
        },
        rounds=9,
    )
    made = compile_passport(given, machine=machine)
    return Table(
        title=f"One passport of examples/{name}: {len(made.payload):,} bytes of payload, {len(made.proof):,} of proof",
        columns=("", "ms"),
        rows=tuple((what, f"{took * 1e3:.2f}") for what, took in times.items()),
    )


def _checking() -> Table:
    rules = (EXAMPLES / "first" / "rules.bpc").read_bytes()
    given = read_input((EXAMPLES / "first" / "input.json").read_bytes(), rules=rules)
    bundle = write_bundle(issue(given, compile_passport(given), Signer(Seed(bytes(range(32))))).bundle)
    text = read_bundle(bundle)["qr.txt"].decode()
    times = medians(
        {"QR code as PNG": lambda: qr_png(text), "verify the bundle": lambda: verify_bundle(bundle)}, rounds=15
    )
    return Table(
        title="What comes after compiling examples/first",
        columns=("", "ms"),
        rows=tuple((what, f"{took * 1e3:.2f}") for what, took in times.items()),
        note="goal: the QR code below 5 ms",
    )


def _signing() -> Table:
    seed = Seed(bytes(range(32)))
    digest = sha256(b"receipt")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    signer = Signer(seed)
    times = medians({"bare Ed25519": lambda: key.sign(digest), "bpc": lambda: signer.sign(digest)})
    bare = times["bare Ed25519"]
    return Table(
        title="Signing a receipt's hash",
        columns=("", "µs", "of bare"),
        rows=tuple((what, f"{took * 1e6:.1f}", f"{took / bare:.2f}") for what, took in times.items()),
        note="goal: within 1.2 of bare",
    )
