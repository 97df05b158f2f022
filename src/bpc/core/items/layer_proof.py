"""Proof of a lower layer, BPC-ITEM-PROOF-1 and BPC-BATCH-PROOF-1, and its salts, BPC-ITEM-SALT-1.

Pure. Two lists: the fields, each with a salt and a hash of its own, so that a view can show some of them; and the
steps, which are hashed together. The root holds the hashes of the fields, the hash of the steps and the pins of the
upper layers. The hash of the root is what the receipt names.

    Salts ─┐
    fields ┼─► LayerFrame ─► field texts, steps text ─► root text ─► root hash
    steps ─┘
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256 as hashed
from hashlib import shake_256
from typing import Any, Final, NamedTuple
from uuid import UUID

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.items.compile_order import LowerLayer
from bpc.core.items.layer_pins import PROOF_VERSIONS_BELOW, LayerPin

SALT_DOMAIN: Final = b"BPC-ITEM-SALT-1\0"
SALT_BYTES: Final = 16


class LayerSalts(NamedTuple):
    """The salts of one passport version, 32 hexadecimal digits each; those of the fields by path."""

    payload: str
    steps: str
    fields: Sequence[str]


def derive_layer_salts(key: bytes, passport_version_id: UUID, field_count: int) -> LayerSalts:
    """SHAKE-256 of the secret, the name of this formula and the version: one salt after the other."""
    seed = b"%b%b%b" % (key, SALT_DOMAIN, str(passport_version_id).encode())
    digits = shake_256(seed).hexdigest(SALT_BYTES * (field_count + 2))
    size = 2 * SALT_BYTES
    salts = [digits[start : start + size] for start in range(0, len(digits), size)]
    return LayerSalts(salts[0], salts[1], salts[2:])


class FieldForm(NamedTuple):
    """What is known of a field before it has a value."""

    path: str
    access: Sequence[str]
    type: str

    def to_json(self) -> dict[str, Json]:
        return {"access": list(self.access), "path": self.path, "type": self.type}


class LayerProofTexts(NamedTuple):
    """The parts of a proof as canonical JSON, and the hash of its root as hexadecimal digits."""

    fields: Sequence[str]
    root: str
    root_hash: str
    steps: str
    salt: str


class LayerFrame:
    """What the proofs of all batteries below the same layers share. `fields` are by path."""

    def __init__(
        self,
        layer: LowerLayer,
        fields: Sequence[FieldForm],
        pins: Sequence[LayerPin],
        battery_product: Mapping[str, Json],
    ) -> None:
        self.layer = layer
        self.fields = fields
        # Around the salt and the value of each field; the members are in the order of their names.
        self._field_starts = [
            f'{{"access":{_encode(list(field.access))},"id":{at},"op":"field","path":{_encode(field.path)},"salt":"'
            for at, field in enumerate(fields)
        ]
        self._field_middles = [f'","type":{_encode(field.type)},"value":' for field in fields]
        above: list[Json] = [pin.to_json() for pin in pins]
        access: list[Json] = [list(field.access) for field in fields]
        self._root_start = (
            f'{{"above":{_encode(above)},"access":{_encode(access)},"battery_product":{_encode(dict(battery_product))},'
            '"facts_hash":"'
        )

    def assemble(
        self,
        values: Sequence[str],
        steps: str,
        salts: LayerSalts,
        *,
        subject_id: str,
        facts_hash: str,
        verdict: str,
    ) -> LayerProofTexts:
        """The texts of a proof and the hash of its root. `values` and `steps` are canonical JSON."""
        rows = zip(self._field_starts, salts.fields, self._field_middles, values, strict=True)
        fields = [f"{start}{salt}{middle}{value}}}" for start, salt, middle, value in rows]
        hashes = '","'.join([hashed(text.encode()).hexdigest() for text in fields])
        steps_hash = hashed(f'{{"salt":"{salts.steps}","steps":{steps}}}'.encode()).hexdigest()
        field_hashes = f'["{hashes}"]' if fields else "[]"
        root = (
            f'{self._root_start}{facts_hash}","fields":{field_hashes},"layer":"{self.layer}",'
            f'"steps_hash":"{steps_hash}","subject_id":"{subject_id}","verdict":"{verdict}"}}'
        )
        return LayerProofTexts(fields, root, hashed(root.encode()).hexdigest(), steps, salts.steps)


def encode_layer_proof(layer: LowerLayer, texts: LayerProofTexts) -> bytes:
    """The canonical bytes of the proof."""
    return (
        f'{{"fields":[{",".join(texts.fields)}],"proof_version":"{PROOF_VERSIONS_BELOW[layer]}","root":{texts.root},'
        f'"root_hash":"{texts.root_hash}","salt":"{texts.salt}","steps":{texts.steps}}}'
    ).encode()


def encode_steps(steps: Iterable[tuple[str, str, tuple[int, ...]]]) -> str:
    """The steps as a canonical list. The first part of a step is how its text ends, which names its type."""
    return f"[{','.join(format_steps(steps))}]"


def format_steps(steps: Iterable[tuple[str, str, tuple[int, ...]]]) -> list[str]:
    return [
        f'{{"children":[{",".join([_NUMBERS[child] for child in children])}],"data":{data}{kind}'
        if children
        else f'{{"children":[],"data":{data}{kind}'
        for kind, data, children in steps
    ]


def hash_step(step: Mapping[str, Any]) -> str:
    """The hash that a lower layer names a step of this one by."""
    return hashed(canonical_json.encode_typed(dict(step))).hexdigest()


class _Numbers(dict[int, str]):
    """Ids as texts, each written once."""

    def __missing__(self, number: int) -> str:
        text = self[number] = str(number)
        return text


_NUMBERS: Final = _Numbers()


def _encode(value: Json) -> str:
    return canonical_json.encode_typed(value).decode()
