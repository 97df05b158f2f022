"""Check `layer model` and the like: a rule that insists on a layer may read nothing of the layers below it. Pure."""

from collections.abc import Sequence

from bpc.core.language import syntax, typed
from bpc.core.language.checking.context import Checker
from bpc.core.language.layers import LAYERS, LayerAssignment, LayerChoice, is_requirements_field
from bpc.core.language.source import Span


def read_layer(name: syntax.Name | None) -> typed.Layer | None:
    """The layer that a rule insists on, if any."""
    return None if name is None else next((layer for layer in LAYERS if layer == name.text), None)


def check_layers(
    checker: Checker,
    fields: Sequence[typed.ProgramField],
    definitions: Sequence[typed.ProgramDefinition],
    functions: Sequence[typed.ProgramFunction],
) -> None:
    """Report each rule that reads something of a layer below the one it insists on."""
    requirements = [
        item for field in fields if isinstance(field.body, typed.RequirementsMet) for item in field.body.items
    ]
    if not any(field.layer for field in fields) and not any(item.layer for item in requirements):
        return
    assignment = LayerAssignment(fields, definitions, functions)
    for field in fields:
        if not is_requirements_field(field):
            _compare(checker, field.span, f"field `{field.path}`", field.layer, assignment.choose_for_field(field.path))
    for item in requirements:
        choice = assignment.choose_for_requirement(item)
        _compare(checker, item.span, f"requirement `{item.code}`", item.layer, choice)


def _compare(checker: Checker, span: Span, what: str, stated_layer: typed.Layer | None, choice: LayerChoice) -> None:
    if stated_layer is None or choice.layer == stated_layer:
        return
    reads = f"it reads {choice.because}, of the layer `{choice.layer}`"
    message = f"the {what} insists on the layer `{stated_layer}`, but {reads}"
    checker.error("wrong-layer", span, message, f"write `layer {choice.layer}`, or read nothing of that layer")
