"""What describes a table that follows from events: its columns in SQL, and what is checked of rows by themselves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString

from bpc.core.audit.row_hashes import hash_json
from bpc.core.formats.canonical_json import canonicalize
from bpc.core.formats.hashes import to_hex


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """A table whose rows follow from the events of one type of aggregate.

    `owner` is the column with the id of the aggregate; None for signing keys, whose chains are named. In SQL,
    the table is `t`. `columns` are SQL by the name that folds use; `convert` changes what SQL gives. Of `unrecorded`
    rows, older builds made no event. Rows that `may_vanish` or `may_appear` are removed or made without an event.
    """

    name: str
    aggregate_type: str
    owner: LiteralString | None
    key: tuple[LiteralString, ...]
    columns: Mapping[str, LiteralString]
    joins: LiteralString = ""
    where: LiteralString = "true"
    unrecorded: LiteralString = "false"
    may_vanish: bool = False
    may_appear: bool = False
    convert: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyCheck:
    """What must be true of each row of a table by itself, or together with rows that follow from events."""

    table: str
    column: str
    key: LiteralString
    is_right: LiteralString
    says: str


def name_columns(*names: LiteralString, **expressions: LiteralString) -> dict[str, LiteralString]:
    columns: dict[str, LiteralString] = {}
    for name in names:
        columns[name] = "t." + name
    return columns | expressions


def hash_bytes(column: LiteralString) -> LiteralString:
    return "encode(sha256(t." + column + "), 'hex')"


def canonicalize_text(text: str) -> str:
    return canonicalize(text.encode()).hex()


def hash_json_text(text: str) -> str:
    return to_hex(hash_json(text))
