"""What the pipeline is measured with: small passports of two rules, and those of the reference example."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.passport.compile_input import read_input
from bpc.runtime import clock

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
COMPONENTS: Final = 10
# The seed's rules name one SKU; these are the same for any.
SMALL_RULES: Final = (
    (EXAMPLES / "first" / "rules.bpc")
    .read_bytes()
    .replace(b'"battery:SKU-123"', b'concat("battery:", productSku())')
    .replace(b'"pcf:SKU-123"', b'concat("pcf:", productSku())')
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportKind:
    """Passports of one kind: their rules, what is known of the product that is called `sku`, and when it is issued."""

    name: str
    rules: bytes
    facts: Callable[[str], Sequence[SnapshotFact]]
    issued_at: datetime


def make_small_kind() -> PassportKind:
    return PassportKind(name="small", rules=SMALL_RULES, facts=_make_small_facts, issued_at=clock.now())


def _make_small_facts(sku: str) -> list[SnapshotFact]:
    return [
        _make_fact("Battery", f"battery:{sku}", {"sku": sku, "name": "Pack 75", "capacity_kwh": "75.500000"}),
        _make_fact("PCF", f"pcf:{sku}", {"sku": sku, "total_gco2e": "4500000.00"}),
        *(
            _make_fact(
                "Component", f"component:{sku}:part-{part}", {"sku": sku, "part": f"part-{part}", "mass_g": "12.500000"}
            )
            for part in range(COMPONENTS)
        ),
    ]


def _make_fact(kind: str, key: str, payload: dict[str, Any]) -> SnapshotFact:
    return SnapshotFact(fact_type=kind, fact_key=key, schema_version=1, payload=payload)


def make_reference_kind() -> PassportKind:
    folder = EXAMPLES.parent / "tests" / "core" / "golden" / "reference-2"
    dsl = (folder / "rules.bpc").read_bytes()
    compile_input = read_input((folder / "input.json").read_bytes(), rules=dsl)
    own = compile_input.product.sku

    def make_facts(sku: str) -> list[SnapshotFact]:
        return [
            _make_fact(fact.fact_type, fact.fact_key.replace(own, sku), {**fact.payload, "sku": sku})
            for fact in compile_input.facts
            if fact.fact_type != "Blinding"
        ]

    return PassportKind(name="reference", rules=dsl, facts=make_facts, issued_at=compile_input.issued_at)
