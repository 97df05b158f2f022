"""`bpc rules check --layers`: which rule belongs to the model, to the batch, and to each battery."""

from collections.abc import Iterator, Mapping
from typing import Final

from bpc.cli.support.output import print_table
from bpc.core.language.layers import assign_layers, rank_layer
from bpc.core.language.typed import Program

COLUMNS: Final = ("LAYER", "KIND", "NAME", "BECAUSE IT READS")


def list_layer_rows(program: Program) -> list[Mapping[str, str | None]]:
    """Every field, definition and requirement with its layer, from the model down."""
    return sorted(
        _iterate_rows(program),
        key=lambda row: (rank_layer(row["layer"]), row["kind"], row["name"]),  # type: ignore[arg-type]
    )


def print_layers(program: Program) -> None:
    rows = list_layer_rows(program)
    print_table(COLUMNS, [[row["layer"], row["kind"], row["name"], row["because"]] for row in rows])


def _iterate_rows(program: Program) -> Iterator[dict[str, str | None]]:
    layers = assign_layers(program)
    parts = (("field", layers.fields), ("definition", layers.definitions), ("requirement", layers.requirements))
    for kind, choices in parts:
        for name, choice in choices.items():
            because = None if choice.layer == "model" else choice.because
            yield {"layer": choice.layer, "kind": kind, "name": name, "because": because}
