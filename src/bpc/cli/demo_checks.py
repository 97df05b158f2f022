"""What `bpc demo` does with the bundle, as a stranger who has nothing else: check it, ask why, change it."""

from typing import Final

from bpc.cli.demo_steps import Told
from bpc.core.archive import read_archive, write_archive
from bpc.core.bundle import read_bundle
from bpc.core.replay import input_of
from bpc.core.rules.package import checked_program
from bpc.core.rules.reference.derive import explain
from bpc.core.rules.world import world_of
from bpc.core.signing import PublicKey
from bpc.core.verify.bundle import verify_bundle
from bpc.core.why import why

SHOWN: Final = "materials.critical_mass"
DEEPEST: Final = 4
WRITTEN: Final = b'"812.500000"'
CHANGED: Final = b'"812.400000"'


def check(bundle: bytes, issuer: PublicKey, told: Told) -> bool:
    """Tell what the bundle shows; whether it holds, and a copy that was changed does not."""
    with told.step("check the bundle with nothing but the issuer's key"):
        report = verify_bundle(bundle, pinned=[issuer])
    told.more(f"{sum(step.ok for step in report.steps)} of {len(report.steps)} steps hold")

    with told.step(f"why {SHOWN} is what it is"):
        reasons = _reasons(bundle)
    for line in reasons:
        told.more(line)

    with told.step("change a tenth of a gram in a copy, and check that"):
        tampered = verify_bundle(_tampered(bundle), pinned=[issuer])
    caught = next((step for step in tampered.steps if not step.ok), None)
    if caught is not None:
        told.more(f"caught: {caught.name}: {caught.detail}")
    return report.ok and caught is not None


def _reasons(bundle: bytes) -> list[str]:
    kept = input_of(read_bundle(bundle).entries)
    program = checked_program(kept.rules)
    world = world_of(kept.facts, program.facts, sku=kept.product.sku, name=kept.product.name, issued_at=kept.issued_at)
    field = next(field for field in program.fields if field.path == SHOWN)
    told = why(field, explain(program, world, SHOWN), program.source, kept.facts)
    return [f"{'  ' * depth}{says}" for depth, says, _ in told.lines() if depth < DEEPEST]


def _tampered(bundle: bytes) -> bytes:
    """The bundle with one fact changed, packed again as if nothing had happened."""
    entries = read_archive(bundle)
    return write_archive(entries | {"facts.jsonl": entries["facts.jsonl"].replace(WRITTEN, CHANGED, 1)})
