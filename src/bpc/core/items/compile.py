"""Compile the passport of one battery, or of one batch, below layers that were opened once. BPC-ITEM-COMPILE-1.

Pure. The same layers, the same run and the same row give the same bytes on every machine and under every engine.

    UpperLayers, ItemRun ── ItemCompiler ── compile(row) ──► CompiledItem
                                                      └────► a refusal: the facts', the rules', or a size limit's
    UpperLayers, a batch ── open_batch ──► UpperLayers
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import FactRecord, SnapshotFact
from bpc.core.facts.snapshot import OrderedFacts
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest
from bpc.core.formats.timestamps import format_time
from bpc.core.items.compile_order import ItemRow, ItemRun, LowerLayer
from bpc.core.items.content import ItemArtifacts, encode_content, read_row
from bpc.core.items.frame import AssembledItem, ItemFrame, ItemHeader, RowIds, choose_verdict, encode_header
from bpc.core.items.layer_facts import read_layer_facts, write_layer_facts
from bpc.core.items.layer_pins import LayerMismatch, LayerPin, list_own_layers
from bpc.core.items.layer_proof import FieldForm, format_steps, hash_step
from bpc.core.items.model_places import add_counts, list_readable_definitions, summarise_requirements
from bpc.core.items.upper_layers import UpperLayers, build_layer_facts
from bpc.core.language.evaluating.expressions import write_entry
from bpc.core.language.evaluating.layer_machine import LayerMachine, LayerProof, LayerWorld
from bpc.core.language.evaluation import RuleFailure
from bpc.core.language.layers import get_fact_layer
from bpc.core.language.typed import Layer
from bpc.core.language.types import FactRecordType
from bpc.core.language.upper_values import ProofPlace, UpperValue, UpperValues
from bpc.core.passport.gate import ComplianceCounts, count_compliance
from bpc.core.passport.payload import BLINDING_FACT_TYPE

# What one battery may add to the passport of its model; a window of fifty readings of each kind stays below it.
MAX_CONTENT_BYTES: Final = 1 << 20


class WrongLayerFact(Invalid):
    """A fact of another layer than the one that is compiled."""

    def __init__(self, fact: SnapshotFact, layer: LowerLayer) -> None:
        super().__init__(
            f"fact `{fact.fact_key}` of type {fact.fact_type} is not one of the layer `{layer}`",
            fix="facts of the product belong to the snapshot of the product",
            details={"fact_type": fact.fact_type, "fact_key": fact.fact_key},
        )


class ItemTooLarge(Invalid):
    """The passport of one battery takes more bytes than are allowed."""

    code = "PAYLOAD_TOO_LARGE"

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the passport of this battery has {size:,} bytes, and at most {MAX_CONTENT_BYTES:,} are allowed",
            fix="make fewer or smaller fields in the layer of the battery",
            details={"size": size, "limit": MAX_CONTENT_BYTES},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledItem:
    """The result of a compile. `content` is what is kept: all artifacts come out of it again, without the rules.

    `receipt` is not signed. `compliance` counts the entries of all layers: the model's, the batch's and its own.
    """

    content: bytes
    receipt: bytes
    receipt_hash: Digest
    payload_hash: Digest
    proof_root_hash: Digest
    snapshot_hash: Digest
    compliance: ComplianceCounts


class ItemCompiler:
    """Compiles any number of batteries (or batches) below the same layers, for the same run."""

    def __init__(self, upper: UpperLayers, run: ItemRun, *, layer: LowerLayer = "item") -> None:
        if layer == "batch" and len(upper.pins) > 1:
            raise LayerMismatch("a batch lies directly below its model")
        if run.rule_package_version_id != upper.rule_package_version_id:
            raise LayerMismatch(
                "the model was compiled with other rules than this run names",
                fix="compile the model with these rules first, or issue the batteries with the rules of the model",
            )
        self.above = upper
        self.layer = layer
        self._own_layers = list_own_layers(layer, upper.pins)
        self.machine = LayerMachine(upper.program, upper.layers, self._own_layers, upper.values)
        self.header = ItemHeader(
            layer=layer,
            pins=upper.pins,
            product=upper.product,
            fields=tuple(FieldForm(each.path, each.access, str(each.type)) for each in self.machine.fields),
            tenant_id=run.tenant_id,
            rule_package_version_id=run.rule_package_version_id,
            dsl_sha256=upper.dsl_sha256,
            tests_sha256=upper.tests_sha256,
            compiler_build_id=run.compiler_build_id,
            signing_key_id=run.signing_key_id,
        )
        self._frame = ItemFrame(self.header)
        self._header_line = encode_header(self.header) + b"\n"
        self._own_types = tuple(kind for kind in upper.program.facts if not _find(kind, upper))
        self._upper_tables = {kind: upper.facts[layer] for kind in upper.program.facts for layer in _find(kind, upper)}

    def compile(self, row: ItemRow) -> CompiledItem:
        """The passport of one row; a refusal names what is wrong with its facts, or the rule that failed."""
        assembled_item, _, content, compliance = self.prove(row)
        if len(content) > MAX_CONTENT_BYTES:
            raise ItemTooLarge(len(content))
        return CompiledItem(
            content=content,
            receipt=assembled_item.receipt,
            receipt_hash=assembled_item.receipt_hash,
            payload_hash=assembled_item.payload_hash,
            proof_root_hash=assembled_item.proof_root_hash,
            snapshot_hash=assembled_item.snapshot_hash,
            compliance=compliance,
        )

    def prove(self, row: ItemRow) -> tuple[AssembledItem, LayerProof, bytes, ComplianceCounts]:
        """The artifacts of a row with the values that they were made of."""
        for fact in row.facts:
            if get_fact_layer(fact.fact_type) not in self._own_layers or fact.fact_type == BLINDING_FACT_TYPE:
                raise WrongLayerFact(fact, self.layer)
        facts = write_layer_facts(row)
        ids = RowIds(row.subject_id, row.passport_version_id, row.snapshot_id, format_time(row.issued_at))
        proof = self._evaluate(facts, ids.issued_at[: len("2027-02-18")])
        counts = add_counts(self.above.counts, count_compliance(proof.compliance))
        verdict = choose_verdict(counts.fail)
        steps = format_steps(proof.steps)
        assembled_item = self._frame.assemble(
            ids,
            facts,
            row.blinding_key,
            values=proof.values,
            steps=steps,
            entries=[write_entry(entry) for entry in proof.compliance],
            verdict=verdict,
        )
        content = encode_content(self._header_line, ids, verdict, facts.lines, proof.values, steps)
        return assembled_item, proof, content, counts

    def _evaluate(self, facts: OrderedFacts, issued_on: str) -> LayerProof:
        own_facts = read_layer_facts(facts, self._own_types)
        upper_tables, product = self._upper_tables, self.above.product

        def get_fact(kind: FactRecordType, key: str) -> FactRecord | None:
            table = upper_tables.get(kind)
            return own_facts[kind].get(key) if table is None else table.get(kind, key)

        def find_facts(kind: FactRecordType, prefix: str) -> list[FactRecord]:
            table = upper_tables.get(kind)
            if table is not None:
                return table.find_by_prefix(kind, prefix)
            return [record for key, record in sorted(own_facts[kind].items()) if key.startswith(prefix)]

        world = LayerWorld(get_fact, find_facts, product.sku, product.name, issued_on)
        try:
            return self.machine.prove(world)
        except RuleFailure as failure:
            raise failure.add_location(self.above.program.source) from None


def _find(kind: FactRecordType, upper: UpperLayers) -> Sequence[Layer]:
    """The upper layer whose facts those of this type are, in a list; none if they are the row's own."""
    layer = get_fact_layer(kind.name)
    return [layer] if layer in upper.facts else []


def open_batch(upper: UpperLayers, run: ItemRun, batch: ItemArtifacts) -> UpperLayers:
    """The layers with a batch below the model. It is compiled again; `LayerMismatch` if that gives other bytes."""
    row = read_row(batch)
    compiler = ItemCompiler(upper, run, layer="batch")
    assembled_item, proof, _, counts = compiler.prove(row)
    if assembled_item.receipt_hash != batch.receipt_hash:
        raise LayerMismatch("the batch is not what its facts give below this model with these rules")
    facts = build_layer_facts(row.facts, upper.program.facts, ("batch",))
    return replace(
        upper,
        pins=(
            *upper.pins,
            LayerPin("batch", row.passport_version_id, assembled_item.receipt_hash, assembled_item.proof_root_hash),
        ),
        values=_add_batch_values(upper, compiler, assembled_item, proof),
        facts={**upper.facts, "batch": facts},
        counts=counts,
    )


def _add_batch_values(
    upper: UpperLayers, compiler: ItemCompiler, assembled_item: AssembledItem, proof: LayerProof
) -> UpperValues:
    root: Any = canonical_json.decode(assembled_item.proof.root.encode())
    program, places = upper.program, {field.path: at for at, field in enumerate(compiler.header.fields)}
    fields = {
        field.path: UpperValue(
            proof.fields[position],
            ProofPlace("batch", places[field.path], root["fields"][places[field.path]]),
            proof.causes.get(position),
        )
        for position, field in enumerate(program.fields)
        if upper.layers.fields[field.path].layer == "batch"
    }
    steps: Any = canonical_json.decode(assembled_item.proof.steps.encode())
    readable = list_readable_definitions(program, upper.layers, "batch")
    definitions = {
        each.name: UpperValue(
            result.value, ProofPlace("batch", result.step, hash_step(steps[result.step])), result.cause
        )
        for each, result in zip(program.definitions, proof.definitions, strict=True)
        if each.name in readable and result is not None and result.step is not None
    }
    nodes = {
        step["data"]["code"]: (hash_step(step), step["data"]["status"])
        for step in steps
        if step["type"] == "COMPLIANCE_EMIT" and "at" in step["data"]
    }
    return UpperValues(
        fields={**upper.values.fields, **fields},
        definitions={**upper.values.definitions, **definitions},
        requirements=(
            *upper.values.requirements,
            summarise_requirements("batch", upper.program, upper.layers, nodes),
        ),
    )
