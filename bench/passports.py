"""What one passport costs: compile, sign, QR, verify; signing beside the library's bare Ed25519."""

from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench import Table, medians
from bpc.core.compile import compile_passport
from bpc.core.compile_input import read_input
from bpc.core.digest import sha256
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.package import checked_program
from bpc.core.signing import Seed, Signer

EXAMPLES = Path(__file__).parents[1] / "examples"


def run() -> Iterable[Table]:
    for name in ("first", "reference"):
        yield _stages(name, EXAMPLES / name)
    yield _signing()


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
