"""What the rules of a lower layer read of the layers above: values with their places in the proofs of those layers.

Pure values. A field or definition of an upper layer is not computed again below it: it is read, as a fact is, and its
place says where it was computed. Both evaluators of the language are handed these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluation import MissingCause
from bpc.core.language.typed import Layer


class ProofPlace(NamedTuple):
    """A node of the proof of an upper layer: its id there, and its hash."""

    layer: Layer
    node: int
    hash: str

    def to_json(self) -> dict[str, Json]:
        return {"hash": self.hash, "layer": self.layer, "node": self.node}


class UpperValue(NamedTuple):
    """A value as rules hold it, or why it is missing, and where it was computed."""

    value: Any
    place: ProofPlace
    cause: MissingCause | None = None


class UpperRequirements(NamedTuple):
    """The requirements of an upper layer: how many, and whether none is FAIL.

    `list_hash` is the hash of the canonical `[[code, hash of the node], …]`, in the order of the rules.
    """

    layer: Layer
    total: int
    list_hash: str
    are_met: bool

    def to_json(self) -> dict[str, Json]:
        return {"count": self.total, "layer": self.layer, "list_hash": self.list_hash, "value": self.are_met}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperValues:
    """All that may be read: fields by path, definitions by name, requirements by layer from the model on."""

    fields: Mapping[str, UpperValue]
    definitions: Mapping[str, UpperValue]
    requirements: tuple[UpperRequirements, ...]
