"""Difference: what differs between two passports, and why.

Pure. Fields are compared by their values, facts member by member, rules by their meaning (layout and comments do not
count). Each field that differs names its causes: rules that were changed, members of facts that were changed and the
documents that said them, the product's name, the day of issue.

    two PassportContents ── compare_passports ──► PassportDifference(fields, compliance, facts, rules)
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Final, Literal, TypeAlias

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.provenance import PROVENANCE_FACT_TYPE, ProvenanceIndex, SealedOrigin
from bpc.core.facts.snapshot import read_facts
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language import syntax
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.language.package import read_program
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source
from bpc.core.language.typed import DefinitionValue, Program, ProgramField, iterate_parts
from bpc.core.passport.payload import BLINDING_FACT_TYPE, get_at_path
from bpc.core.readiness.rule_reads import FactMember, RuleReads

RuleChange = Literal["added", "removed", "changed"]
Declaration: TypeAlias = syntax.EnumDeclaration | syntax.TableDeclaration

MAX_VALUE_LENGTH: Final = 120
MAX_CAUSES_OF_A_MEMBER: Final = 5  # facts of one type that a cause names one by one; the list of facts has all
# About the snapshot itself; nothing that a document says.
_RESERVED_FACT_TYPES: Final = frozenset({BLINDING_FACT_TYPE, PROVENANCE_FACT_TYPE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportContents:
    """A passport and what it was compiled from, as its bundle has it."""

    payload: Mapping[str, Any]
    facts: Sequence[SnapshotFact]
    rules: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDifference:
    """A member of a fact that differs; an absent value is None."""

    fact_type: str
    fact_key: str
    member: str
    before: Json
    after: Json
    before_origin: SealedOrigin | None
    after_origin: SealedOrigin | None

    @property
    def says(self) -> str:
        was = f"{format_value(self.before)}{_format_origin(self.before_origin)}"
        now = f"{format_value(self.after)}{_format_origin(self.after_origin)}"
        return f"`{self.member}` of `{self.fact_key}` was {was} and is {now}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDifference:
    """A field whose rule was added, removed or changed; definitions have the path `def name`, others `require CODE`."""

    path: str
    change: RuleChange


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A field that differs, and why, in sentences. A field without a value, or not in the rules, is None."""

    path: str
    title: str  # what a sentence calls it
    before: Json
    after: Json
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplianceDifference:
    """A compliance entry that differs; None where there is none."""

    code: str
    field: str
    before: Mapping[str, str] | None
    after: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportDifference:
    """What differs between two passports. Without any of it they say the same."""

    before_id: str
    after_id: str
    fields: tuple[FieldDifference, ...]
    compliance: tuple[ComplianceDifference, ...]
    facts: tuple[FactDifference, ...]
    rules: tuple[RuleDifference, ...]
    access: tuple[str, ...]  # fields that other audiences may see
    product: tuple[str, ...]  # sentences: the SKU or the name differ

    @property
    def is_empty(self) -> bool:
        return not (self.fields or self.compliance or self.facts or self.rules or self.access or self.product)


def read_contents(entries: Mapping[str, bytes]) -> PassportContents:
    """The contents of a bundle."""
    payload: Any = canonical_json.decode(entries["payload.json"])
    return PassportContents(payload=payload, facts=read_facts(entries["facts.jsonl"]), rules=entries["rules.bpc"])


def compare_passports(before: PassportContents, after: PassportContents) -> PassportDifference:
    """Everything that differs between two passports, in the order of paths and keys."""
    facts = tuple(compare_facts(before.facts, after.facts))
    programs = read_program(before.rules), read_program(after.rules)
    rules = tuple(_compare_rules(before.rules, after.rules))
    causes = _CauseFinder(before, after, programs, facts, rules)
    paths = sorted({field.path for program in programs for field in program.fields})
    return PassportDifference(
        before_id=before.payload["passport_version_id"],
        after_id=after.payload["passport_version_id"],
        fields=tuple(_compare_fields(before, after, paths, causes)),
        compliance=compare_compliance(before.payload["compliance"], after.payload["compliance"]),
        facts=facts,
        rules=rules,
        access=tuple(path for path in paths if before.payload["access"].get(path) != after.payload["access"].get(path)),
        product=tuple(_compare_products(before.payload["battery_product"], after.payload["battery_product"])),
    )


def compare_facts(before: Iterable[SnapshotFact], after: Iterable[SnapshotFact]) -> Iterator[FactDifference]:
    """Each member that differs, by type, key and member."""
    before, after = tuple(before), tuple(after)
    origins = ProvenanceIndex(before), ProvenanceIndex(after)
    one, other = _index_facts(before), _index_facts(after)
    for name in sorted(one.keys() | other.keys()):
        was, now = one.get(name, {}), other.get(name, {})
        if was is not now and was != now:
            yield from _compare_members(name, was, now, origins)


def compare_compliance(
    before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]
) -> tuple[ComplianceDifference, ...]:
    """The entries that differ, by code and field. Of equal codes of one field, the order decides which are compared."""
    one, other = _number_entries(before), _number_entries(after)
    return tuple(
        ComplianceDifference(code=name[0], field=name[1], before=one.get(name), after=other.get(name))
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    )


def format_value(value: Json) -> str:
    """A value as people write it, cut to a readable length: a quantity with its unit, an absent one as `absent`."""
    match value:
        case None:
            return "absent"
        case {"unit": unit, "value": number, **others} if not others:
            return f"{number} {unit}"
        case str() if value.strip() == value != "" and canonical_json.encode(value) == f'"{value}"'.encode():
            text = value  # nothing in it needs to be escaped
        case _:
            text = canonical_json.encode(value).decode()
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def _format_origin(origin: SealedOrigin | None) -> str:
    return "" if origin is None else f" ({origin.describe()})"


def _index_facts(facts: Iterable[SnapshotFact]) -> dict[tuple[str, str], Mapping[str, Json]]:
    return {
        (fact.fact_type, fact.fact_key): fact.payload for fact in facts if fact.fact_type not in _RESERVED_FACT_TYPES
    }


def _compare_members(
    name: tuple[str, str],
    was: Mapping[str, Json],
    now: Mapping[str, Json],
    origins: tuple[ProvenanceIndex, ProvenanceIndex],
) -> Iterator[FactDifference]:
    for member in sorted(was.keys() | now.keys()):
        if canonical_json.encode(was.get(member)) != canonical_json.encode(now.get(member)):
            yield FactDifference(
                fact_type=name[0],
                fact_key=name[1],
                member=member,
                before=was.get(member),
                after=now.get(member),
                before_origin=origins[0].find_origin(*name, member) if member in was else None,
                after_origin=origins[1].find_origin(*name, member) if member in now else None,
            )


def _compare_rules(before: bytes, after: bytes) -> Iterator[RuleDifference]:
    one, other = _index_rules(before), _index_rules(after)
    for path in sorted(one.keys() | other.keys()):
        if path not in one:
            yield RuleDifference(path=path, change="added")
        elif path not in other:
            yield RuleDifference(path=path, change="removed")
        elif one[path] != other[path]:
            yield RuleDifference(path=path, change="changed")


def _index_rules(rules: bytes) -> dict[str, tuple[syntax.Item, ...]]:
    """Rules by their path, definitions by `def name`, each with the declarations that it uses."""
    tree = parse(Source("rules.bpc", rules.decode())).tree
    declarations = _index_declarations(tree)
    index: dict[str, tuple[syntax.Item, ...]] = {}
    for item in tree.items:
        if isinstance(item, syntax.Rule):
            # What it is for people causes no other value.
            rule = dataclasses.replace(item, about=None)
            index[item.dotted] = (rule, *_list_used_declarations(rule, declarations))
        elif isinstance(item, syntax.Definition):
            index[_make_definition_path(item.name.text)] = (item, *_list_used_declarations(item, declarations))
        elif isinstance(item, syntax.FunctionDefinition):
            index[f"fn {item.name.text}"] = (item, *_list_used_declarations(item, declarations))
        elif isinstance(item, syntax.Requirement):
            index[f"require {item.code.text}"] = (item, *_list_used_declarations(item, declarations))
    return index


def _index_declarations(tree: syntax.SyntaxTree) -> dict[str, list[Declaration]]:
    """The declarations by every name that means one: its own, and those of its members."""
    by_name: dict[str, list[Declaration]] = {}
    for item in tree.items:
        if isinstance(item, syntax.EnumDeclaration | syntax.TableDeclaration):
            members = item.members if isinstance(item, syntax.EnumDeclaration) else ()
            for name in {item.name.text, *(member.name.text for member in members)}:
                by_name.setdefault(name, []).append(item)
    return by_name


def _list_used_declarations(user: syntax.Item, declarations: Mapping[str, Sequence[Declaration]]) -> list[Declaration]:
    used: dict[str, Declaration] = {}
    pending: list[Any] = [user] if declarations else []
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending += node
        elif is_dataclass(node):
            name = getattr(node, "text" if isinstance(node, syntax.Name) else "name", None)
            for declaration in declarations.get(name, ()) if isinstance(name, str) else ():
                if declaration.name.text not in used:
                    used[declaration.name.text] = declaration
                    pending.append(declaration)
            pending += (getattr(node, part.name) for part in dataclasses.fields(node))
    return [used[name] for name in sorted(used)]


def _make_definition_path(name: str) -> str:
    """What a definition is called among rules; no field has such a path."""
    return f"def {name}"


def _compare_fields(
    before: PassportContents, after: PassportContents, paths: Sequence[str], causes: "_CauseFinder"
) -> Iterator[FieldDifference]:
    for path in paths:
        was, now = (_get_value(contents, path) for contents in (before, after))
        if canonical_json.encode(was) != canonical_json.encode(now):
            own_causes = tuple(causes.list_causes(path))
            yield FieldDifference(path=path, title=causes.get_title(path), before=was, after=now, causes=own_causes)


def _get_value(contents: PassportContents, path: str) -> Json:
    values = get_at_path(contents.payload["fields"], path)
    return values[0] if values else None


def _compare_products(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for member, label in (("sku", "SKU"), ("name", "name")):
        if before[member] != after[member]:
            yield f"the product's {label} was {format_value(before[member])} and is {format_value(after[member])}"


def _number_entries(entries: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, int], Mapping[str, str]]:
    numbers: dict[tuple[str, str], int] = {}
    by_name = {}
    for entry in entries:
        name = entry["code"], entry["field"]
        numbers[name] = numbers.get(name, 0) + 1
        by_name[*name, numbers[name]] = entry
    return by_name


class _CauseFinder:
    """Says why a field differs, as far as facts, rules, product and day show it."""

    def __init__(
        self,
        before: PassportContents,
        after: PassportContents,
        programs: tuple[Program, Program],
        facts: Sequence[FactDifference],
        rules: Sequence[RuleDifference],
    ) -> None:
        self._reads = [RuleReads(program) for program in programs]
        self._fields = [{field.path: field for field in program.fields} for program in programs]
        self._definitions = [
            {definition.name: definition for definition in program.definitions} for program in programs
        ]
        self._facts: dict[FactMember, list[FactDifference]] = {}
        for fact in facts:
            self._facts.setdefault(FactMember(fact.fact_type, fact.member), []).append(fact)
        self._rules = {rule.path: rule.change for rule in rules}
        self._passport_changes = dict(_list_passport_changes(before.payload, after.payload))

    def get_title(self, path: str) -> str:
        """What the rules call a field, the newer ones first."""
        return next((fields[path].display_name for fields in reversed(self._fields) if path in fields), path)

    def list_causes(self, path: str) -> Iterator[str]:
        """The causes in sentences: the field's own rule, rules that it reads, members, product and day."""
        if path in self._rules:
            yield f"its rule was {self._rules[path]}"
        if path == REQUIREMENTS_PATH:
            for name in sorted(name for name in self._rules if name.startswith("require ")):
                yield f"the requirement `{name.removeprefix('require ')}` was {self._rules[name]}"
        if self._rules:
            needs = {need for fields in self._fields for need in _list_all_needs(fields, path)}
            for need in sorted(needs & self._rules.keys()):
                yield f"the rule of `{need}`, which it reads, was {self._rules[need]}"
            for name in sorted(self._list_definitions(path)):
                if (change := self._rules.get(_make_definition_path(name))) is not None:
                    yield f"the definition `{name}`, which it needs, was {change}"
        reads_of_field = [reads for reads, fields in zip(self._reads, self._fields, strict=True) if path in fields]
        members = {member for reads in reads_of_field for member in reads.get_members(path)}
        for member in sorted(members & self._facts.keys()):
            yield from self._describe_member(member)
        passport_ops = {op for reads in reads_of_field for op in reads.get_passport_reads(path)}
        yield from (says for op, says in self._passport_changes.items() if op in passport_ops)

    def _list_definitions(self, path: str) -> set[str]:
        """The definitions that a field needs, directly or not, before or after."""
        names: set[str] = set()
        for fields, definitions in zip(self._fields, self._definitions, strict=True):
            paths = [path, *_list_all_needs(fields, path)] if definitions else []
            pending = [fields[each].body for each in paths if each in fields]
            while pending:
                parts = iterate_parts(pending.pop())
                new = {part.name for part in parts if isinstance(part, DefinitionValue)} - names
                names |= new
                pending += [definitions[name].body for name in new if name in definitions]
        return names

    def _describe_member(self, member: FactMember) -> Iterator[str]:
        facts = self._facts[member]
        if len(facts) <= MAX_CAUSES_OF_A_MEMBER:
            yield from (fact.says for fact in facts)
        else:
            yield f"`{member.member}` of {len(facts):,} {member.fact_type} facts was changed"


def _list_all_needs(program: Mapping[str, ProgramField], path: str) -> set[str]:
    """The fields that a field reads, directly or not."""
    needs: set[str] = set()
    pending = [path] if path in program else []
    while pending:
        new = set(program[pending.pop()].needs) - needs
        needs |= new
        pending += new
    return needs


def _list_passport_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    names = before["battery_product"]["name"], after["battery_product"]["name"]
    skus = before["battery_product"]["sku"], after["battery_product"]["sku"]
    days = before["issued_at"][:10], after["issued_at"][:10]
    for op, label, (was, now) in (
        ("productSku", "the product's SKU", skus),
        ("productName", "the product's name", names),
        ("issuedOn", "the day of issue", days),
    ):
        if was != now:
            yield op, f"{label} was {format_value(was)} and is {format_value(now)}"


def compare_entries(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> PassportDifference:
    """Compare two bundles. May run in a child process."""
    return compare_passports(read_contents(before), read_contents(after))
