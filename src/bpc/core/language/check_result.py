"""The result of a check as plain values, which a child process can send."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpc.core.language import typed
from bpc.core.language.package import RulesRefused, read_package
from bpc.core.language.source import diagnostic_to_json
from bpc.core.language.types import Opt


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageField:
    """A field of checked rules. It is `required` unless its type is an option.

    `label`, `point` and `citation` are what its rule says that it is, for people.
    """

    field_path: str
    field_type: str
    audiences: Sequence[str]
    required: bool
    label: str | None = None
    point: str | None = None
    citation: str | None = None


def list_fields(program: typed.Program) -> list[PackageField]:
    """The fields of checked rules, by path."""
    fields = [
        PackageField(
            field_path=field.path,
            field_type=str(field.type),
            audiences=sorted(field.access),
            required=not isinstance(field.type, Opt),
            label=None if field.about is None else field.about.label,
            point=None if field.about is None else field.about.point,
            citation=None if field.about is None else field.about.citation,
        )
        for field in program.fields
    ]
    return sorted(fields, key=lambda field: field.field_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesRefusal:
    """The text of `RulesRefused`, which cannot be pickled."""

    code: str
    says: str
    fix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheckResult:
    """The diagnostics of two texts. `fields`, by path, are there exactly if `refusal` is None.

    `language` is the level of the rule language that the rules need.
    """

    diagnostics: Sequence[Mapping[str, Any]]
    fields: Sequence["PackageField"]
    language: int
    refusal: RulesRefusal | None


def check_rule_sources(dsl: bytes, tests: bytes) -> RuleCheckResult:
    """Parse and check the rules and their tests. May take long, and runs in a child process."""
    package = read_package(dsl, tests)
    refusal = None if package.program is not None else RulesRefused(package.diagnostics)
    return RuleCheckResult(
        diagnostics=[dict(diagnostic_to_json(problem.source, problem.diagnostic)) for problem in package.diagnostics],
        fields=[] if package.program is None else list_fields(package.program),
        language=1 if package.program is None else package.program.language,
        refusal=None if refusal is None else RulesRefusal(code=refusal.code, says=refusal.says, fix=refusal.fix),
    )
