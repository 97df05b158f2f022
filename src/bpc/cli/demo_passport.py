"""The passport that `bpc demo` makes: from rules and facts to a bundle that anybody can check. All in memory."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeAlias

from bpc import fresh
from bpc.core import canon
from bpc.core.blinding import blinding_fact
from bpc.core.bundle import write_bundle
from bpc.core.compile import compile_passport
from bpc.core.compile_input import CompileInput, Product
from bpc.core.errors import Conflict
from bpc.core.facts import SnapshotFact
from bpc.core.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.issue import issue
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.package import checked_program
from bpc.core.rules.reference.derive import explain
from bpc.core.rules.testing.run import run_tests
from bpc.core.rules.typed import Program
from bpc.core.rules.world import world_of
from bpc.core.signing import Seed, Signer
from bpc.core.verify.bundle import verify_bundle
from bpc.core.view import make_view
from bpc.core.why import why

Step: TypeAlias = Callable[[str], AbstractContextManager[None]]
Tell: TypeAlias = Callable[[str], None]

SKU: Final = "SKU-123"
RULES: Final = b"""
field battery.energy @public: Qty(kWh) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B1", "the battery is not described");
  toQty("kWh", requireSome(recordGet(b, "capacity_kwh"), "B2", "the battery has no capacity"));

field materials.critical_mass @interest @authority: Qty(kg) =
  let parts = getFactsByPrefix("Component", concat("component:", productSku(), ":"));
  let critical = filter(parts, fn(part) => unwrapOr(recordGet(part, "critical"), false));
  let grams = map(critical, fn(part) => toQty("g", unwrapOr(recordGet(part, "mass_g"), 0)));
  convert("g", "kg", sumQty("g", grams));

field duty.needs_passport @public: Bool = issuedOn() >= date("2027-02-18");
"""
TESTS: Final = b"""
example from_the_first_day: { issued("2027-02-18"); } => expect(duty.needs_passport, == true);;
example not_before: { issued("2027-02-17"); } => expect(duty.needs_passport, == false);;
property never_negative: cases(500) seed(7) given {
  fact c("Component", "component:SKU-1:cell") = any;
} => forall x: Int . implies(
  unwrapOr(recordGet(requireSome(getFact("Component", "component:SKU-1:cell"), "T1", "-"), "mass_g"), 0) >= 0,
  field("materials.critical_mass") >= qty(0, kg)
);;
"""
SHOWN: Final = "materials.critical_mass"


@dataclass(frozen=True, slots=True)
class Document:
    """The supplier's bill of materials, as JSON holds it."""

    battery: dict[str, canon.Json]
    components: list[dict[str, canon.Json]]

    def facts(self) -> list[SnapshotFact]:
        yielded = [("Battery", f"battery:{self.battery['sku']}", self.battery)]
        yielded += [("Component", f"component:{part['sku']}:{part['part']}", part) for part in self.components]
        return [
            SnapshotFact(fact_type=kind, fact_key=key, schema_version=1, payload=payload)
            for kind, key, payload in yielded
        ]


def show(document: Document, seed: Seed, tenant: TenantId, *, signing_key_id: str, step: Step, tell: Tell) -> None:
    """Check, test, compile, sign, verify and explain, each step told as it goes."""
    with step("check the rules and run their tests"):
        program = checked_program(RULES, TESTS)
        tested = run_tests(program, seed=1)
    tell(f"{len(program.fields)} fields, {tested.passed} of {tested.cases} cases passed")

    given = _input(document, tenant, signing_key_id)
    machine = Machine(program)
    with step("compile the passport, with a proof of every step"):
        compiled = compile_passport(given, machine=machine)
    tell(f"{len(compiled.payload):,} bytes of passport, {len(compiled.proof):,} of proof")

    with step("sign it, draw its QR code, put everything into a bundle"):
        bundle = issue(given, compiled, Signer(seed)).bundle
    data = write_bundle(bundle)
    tell(f"{len(data):,} bytes, from which a stranger can check it")

    signer = Signer(seed)
    with step("check it as a stranger: hashes, signature, every step of the proof, replay"):
        report = verify_bundle(data, pinned=[signer.public_key])
        changed = verify_bundle(data.replace(b'"0.412', b'"0.512', 1), pinned=[signer.public_key])
    if not report.ok or changed.ok:
        raise Conflict("verification did not find what is there to be found", fix="report it: this is a bug of bpc")
    tell(f"{len(report.steps)} steps hold; one digit changed, and `{changed.failed[0]}` does not")

    with step("show the public its part, and why a value is what it is"):
        view = make_view(bundle, "public")
        reasons = _reasons(program, given)
    tell(f"{len(view):,} bytes; of hidden fields only salted hashes")
    for line in reasons:
        tell(line)


def _input(document: Document, tenant: TenantId, signing_key_id: str) -> CompileInput:
    snapshot = SnapshotId(fresh.new_id())
    return CompileInput(
        tenant_id=tenant,
        passport_id=PassportId(fresh.new_id()),
        passport_version_id=PassportVersionId(fresh.new_id()),
        product=Product(
            battery_product_id=BatteryProductId(fresh.new_id()), sku=SKU, name=str(document.battery["name"])
        ),
        snapshot_id=snapshot,
        rule_package_version_id=RulePackageVersionId(fresh.new_id()),
        issued_at=fresh.now(),
        compiler_build_id="bpc-demo",
        signing_key_id=signing_key_id,
        facts=(*document.facts(), blinding_fact(snapshot, fresh.entropy(32))),
        rules=RULES,
        tests=TESTS,
    )


def _reasons(program: Program, given: CompileInput) -> list[str]:
    world = world_of(given.facts, program.facts, sku=SKU, name=given.product.name, issued_at=given.issued_at)
    field = next(field for field in program.fields if field.path == SHOWN)
    told = why(field, explain(program, world, SHOWN), program.source, given.facts)
    return [f"{'  ' * depth}{says}" for depth, says, _ in told.lines() if depth < 4]
