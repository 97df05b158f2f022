"""Readiness: what a product still needs for its passport, all of it at once.

Pure. Three things are looked at: what the data points of its category ask for, what the rules gave in a trial, and
what was noticed about the facts themselves. What two of them say about one member is one issue.

    facts, findings, Trial, RuleReads ── assess_readiness ──► Readiness(issues, points, …)
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from bpc.core.exports.data_points import CATEGORIES, POINTS, DataPoint, Status, find_category, read_point_code
from bpc.core.exports.point_parts import PARTS, PointPart, find_open_parts, is_blank, list_filling_members
from bpc.core.facts.evidence_findings import CONFLICTING, UNREADABLE
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding, Severity
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.language.evaluation import ComplianceEntry
from bpc.core.language.types import FactRecordType
from bpc.core.passport.gate import FINDING_STATUSES
from bpc.core.readiness.issues import (
    IssueKind,
    PointReadiness,
    PointState,
    Readiness,
    ReadinessIssue,
    TemplateCell,
    find_template_cell,
)
from bpc.core.readiness.rule_reads import CheckedReads, FactMember, RuleReads
from bpc.core.readiness.trial import (
    FactProblem,
    FieldFailure,
    ProductFacts,
    Trial,
    TrialRules,
    try_product,
)

_KEYS: Final[Mapping[str, str]] = {"Battery": "battery:{}", "PCF": "pcf:{}", "DueDiligence": "dd:{}"}
_SEVERITIES: Final[Sequence[Severity]] = ("error", "warning", "note")
# The worst first: a point is shown as the first of these that an issue says of it.
_KINDS: Final[Sequence[IssueKind]] = (
    "failing",
    "missing",
    "unreadable",
    "conflicting",
    "implausible",
    "not_shown",
)
_FINDING_KINDS: Final[Mapping[str, IssueKind]] = {UNREADABLE: "unreadable", CONFLICTING: "conflicting"}
_COMPLIANCE_SEVERITIES: Final[Mapping[str, Severity]] = {"FAIL": "error", "WARN": "warning"}


def assess_readiness(
    sku: str, facts: Sequence[SnapshotFact], findings: Sequence[Finding], trial: Trial, reads: RuleReads
) -> Readiness:
    """Everything that keeps a product from its passport. The trial is that of the same facts."""
    return _Assessment(sku, facts, findings, trial, reads).build()


class _Assessment:
    """One product being assessed."""

    def __init__(
        self, sku: str, facts: Sequence[SnapshotFact], findings: Sequence[Finding], trial: Trial, reads: RuleReads
    ) -> None:
        self._sku = sku
        self._facts = facts
        self._findings = findings
        self._trial = trial
        self._reads = reads
        self._category = find_category(sku, facts)
        self._present = {
            FactMember(fact.fact_type, member)
            for fact in facts
            for member, value in fact.payload.items()
            if value is not None
        }
        self._unreadable = {
            FactMember(finding.fact_type, member)
            for finding in findings
            if _get_finding_kind(finding) == "unreadable"
            for member in finding.members
        }

    def build(self) -> Readiness:
        failures = list(self._list_failures())
        open_parts = self._find_open_parts()
        issues = [
            *failures,
            *(self._describe_problem(problem) for problem in self._trial.problems),
            *self._list_compliance(open_parts),
            *self._list_findings(),
            *self._list_open_parts(open_parts, failures),
            *self._list_not_shown(open_parts),
        ]
        issues.sort(key=_get_order)
        return Readiness(
            sku=self._sku,
            category=self._category,
            compiles=self._trial.is_complete,
            issues=tuple(issues),
            points=tuple(self._list_points(issues, open_parts)),
            compliance=dict(Counter(entry.status for entry in self._trial.compliance)),
        )

    def _get_status(self, point: DataPoint) -> Status | None:
        if self._category is not None:
            return point.get_status(self._category)
        statuses = {point.get_status(category) for category in CATEGORIES}
        return statuses.pop() if len(statuses) == 1 else None

    def _is_mandatory(self, numbers: Iterable[int]) -> bool:
        return any(self._get_status(POINTS[number - 1]) == "M" for number in numbers)

    # What rules could not compute ---------------------------------------------------------------------------------

    def _list_failures(self) -> Iterator[ReadinessIssue]:
        """An issue for each failure; fields that fail for one and the same reason are one issue."""
        groups: dict[tuple[str, CheckedReads], list[FieldFailure]] = {}
        for failure in self._trial.failures:
            checked_reads = self._reads.find_reads_at(failure.field, failure.span)
            groups.setdefault((failure.says, checked_reads), []).append(failure)
        for (_, checked_reads), failures in groups.items():
            yield self._describe_failures(failures, checked_reads)

    def _describe_failures(self, failures: Sequence[FieldFailure], checked_reads: CheckedReads) -> ReadinessIssue:
        first = failures[0]
        fields = tuple(dict.fromkeys(path for each in failures for path in (each.field, *each.dependents)))
        members = _sort_members(checked_reads.members)
        absent = [each for each in members if each not in self._present and each not in self._unreadable]
        kind: IssueKind = "failing"
        if (members and len(absent) == len(members)) or self._is_fact_absent(checked_reads):
            kind = "missing"
        fact_type = members[0].fact_type if members else next(iter(sorted(checked_reads.fact_types)), None)
        stated_point = self._reads.get_stated_point(first.field)
        points = _collect_points(members) if stated_point is None else {stated_point[0]}
        points = points if checked_reads.point is None else {checked_reads.point}
        return ReadinessIssue(
            kind=kind,
            severity="error",
            says=self._describe_failure(kind, first, fields),
            points=tuple(sorted(points)),
            code=first.rule_code or first.code,
            fields=fields,
            labels=tuple(map(self._reads.get_title, fields)),
            place=first.place,
            fact_type=fact_type,
            fact_key=self._find_key(fact_type),
            members=tuple(each.member for each in members),
            cells=_list_cells(members),
        )

    def _describe_failure(self, kind: IssueKind, failure: FieldFailure, fields: Sequence[str]) -> str:
        others = len(fields) - 1
        more = "" if not others else f" and {others} other field{'' if others == 1 else 's'}"
        verb = "has" if not others else "have"
        title = self._reads.get_title(failure.field)
        title = f"`{title}`" if title == failure.field else title
        says = f"{failure.says}: {title}{more} {verb} no value"
        return f"{says}, because no document says it" if kind == "missing" else says

    def _is_fact_absent(self, checked_reads: CheckedReads) -> bool:
        known_types = {fact.fact_type for fact in self._facts}
        return (
            not checked_reads.members
            and bool(checked_reads.fact_types)
            and checked_reads.fact_types.isdisjoint(known_types)
        )

    def _find_key(self, fact_type: str | None) -> str | None:
        form = None if fact_type is None else _KEYS.get(fact_type)
        return None if form is None else form.format(self._sku)

    def _describe_problem(self, problem: FactProblem) -> ReadinessIssue:
        member = None if problem.member is None else FactMember(problem.fact_type, _get_top_member(problem.member))
        return ReadinessIssue(
            kind="failing",
            severity="error",
            says=problem.says,
            points=tuple(sorted(_collect_points([member] if member else []))),
            code=problem.code,
            fact_type=problem.fact_type,
            fact_key=problem.fact_key,
            members=() if member is None else (member.member,),
            cells=_list_cells([member] if member else []),
        )

    def _list_compliance(self, open_parts: Mapping[int, Sequence[PointPart]]) -> Iterator[ReadinessIssue]:
        # A finding that a rule emits is listed as the finding: it knows the fact and the members.
        # An entry with another status than that of the finding says more, and is listed, too.
        of_findings = {(finding.code, FINDING_STATUSES.get(finding.severity)) for finding in self._findings}
        for entry in self._trial.compliance:
            if entry.status in _COMPLIANCE_SEVERITIES and (entry.code, entry.status) not in of_findings:
                number = read_point_code(entry.code) if entry.field == REQUIREMENTS_PATH else None
                is_open = number is not None and bool(open_parts[number])
                yield self._describe_entry(entry, "missing" if is_open else "failing")

    def _describe_entry(self, entry: ComplianceEntry, kind: IssueKind) -> ReadinessIssue:
        members = _sort_members(self._reads.get_entry_members(entry.field, entry.code))
        stated_point = self._reads.get_stated_point(entry.field)
        point = read_point_code(entry.code) or (None if stated_point is None else stated_point[0])
        return ReadinessIssue(
            kind=kind,
            severity=_COMPLIANCE_SEVERITIES[entry.status],
            says=f"{entry.status}: {entry.message}",
            points=(point,) if point is not None else tuple(sorted(_collect_points(members))),
            code=entry.code,
            fields=(entry.field,),
            labels=tuple(self._reads.list_entry_titles(entry.field, entry.code)),
            fact_type=members[0].fact_type if members else None,
            fact_key=self._find_key(members[0].fact_type) if members else None,
            members=tuple(each.member for each in members),
            cells=_list_cells(members),
        )

    # What was noticed about the facts -----------------------------------------------------------------------------

    def _list_findings(self) -> Iterator[ReadinessIssue]:
        for finding in self._findings:
            kind = _get_finding_kind(finding)
            is_error = kind == "unreadable" and self._is_mandatory(finding.points)
            members = [FactMember(finding.fact_type, member) for member in finding.members]
            yield ReadinessIssue(
                kind=kind,
                severity="error" if is_error else finding.severity,
                says=finding.says,
                points=finding.points or tuple(sorted(_collect_points(members))),
                code=finding.code,
                fact_type=finding.fact_type,
                fact_key=finding.fact_key,
                members=finding.members,
                cells=_list_cells(members),
            )

    # What the data points ask for ---------------------------------------------------------------------------------

    def _find_open_parts(self) -> Mapping[int, Sequence[PointPart]]:
        """The parts of each point that nothing fills: no fact, and no field that names the point or the part.

        Rules may compute a value, such as a fade, from others. A field that names a point of several parts fills one of
        them if it says which. A point whose requirement is met, or does not apply to this battery, has no open parts.
        """
        settled_points = self._list_required_points("PASS", "NOT_APPLICABLE")
        valued_paths = [path for path, value in self._trial.fields.items() if not is_blank(value)]
        computed_points = {point for path in valued_paths for point in self._reads.list_points_named(path)}
        computed_parts = {self._reads.get_stated_point(path) for path in valued_paths}
        return {
            number: ()
            if number in settled_points or (number in computed_points and len(PARTS[number]) == 1)
            else tuple(part for part in parts if (number, PARTS[number].index(part) + 1) not in computed_parts)
            for number, parts in find_open_parts(self._facts).items()
        }

    def _list_required_points(self, *statuses: str) -> set[int | None]:
        """The points that a requirement names by its code and gives one of these statuses."""
        entries = (entry for entry in self._trial.compliance if entry.field == REQUIREMENTS_PATH)
        return {read_point_code(entry.code) for entry in entries if entry.status in statuses}

    def _list_open_parts(
        self, open_parts: Mapping[int, Sequence[PointPart]], failures: Sequence[ReadinessIssue]
    ) -> Iterator[ReadinessIssue]:
        """Parts that nothing fills, unless a rule said so already or a value for them could not be read."""
        named_members = {(point, member) for issue in failures for point in issue.points for member in issue.members}
        named_points = {point for point, _ in named_members}
        required_points = self._list_required_points("FAIL", "WARN")
        for point in POINTS:
            status, parts = self._get_status(point), open_parts[point.number]
            is_said = point.number in required_points or (
                point.number in named_points and len(PARTS[point.number]) == 1
            )
            if status not in {"M", "C"} or is_said:
                continue
            for part in parts:
                ways = {FactMember(way.fact_type, _get_top_member(name)) for way in part.ways for name in way.members}
                is_named = any((point.number, each.member) in named_members for each in ways)
                if not is_named and ways.isdisjoint(self._unreadable):
                    yield self._describe_part(point, part, status)

    def _describe_part(self, point: DataPoint, part: PointPart, status: Status | None) -> ReadinessIssue:
        way = part.ways[0]
        members = [FactMember(way.fact_type, member) for member in way.members]
        label = point.name if len(PARTS[point.number]) == 1 else f"{point.name}: {part.name}"
        need = "mandatory" if status == "M" else "asked for under conditions"
        return ReadinessIssue(
            kind="missing",
            severity="error" if status == "M" else "note",
            says=f"data point {point.number}, {label}, is {need}, and no document says it",
            points=(point.number,),
            fact_type=way.fact_type,
            fact_key=self._find_key(way.fact_type),
            members=tuple(dict.fromkeys(_get_top_member(member) for member in way.members)),
            cells=_list_cells(members),
        )

    def _list_not_shown(self, open_parts: Mapping[int, Sequence[PointPart]]) -> Iterator[ReadinessIssue]:
        """Mandatory points that the documents fill and no field of the rules is about."""
        read_members = {member for path in self._list_paths() for member in self._reads.get_members(path)}
        shown_points = {point for path in self._list_paths() for point in self._reads.list_points_named(path)}
        for point in POINTS:
            filling = {FactMember(kind, _get_top_member(name)) for kind, name in list_filling_members(point.number)}
            is_shown = point.number in shown_points or not filling.isdisjoint(read_members)
            if self._get_status(point) == "M" and not open_parts[point.number] and not is_shown:
                yield ReadinessIssue(
                    kind="not_shown",
                    severity="warning",
                    says=f"data point {point.number}, {point.name}, is mandatory; the documents say it, and no field "
                    "of the rules shows it",
                    points=(point.number,),
                    members=tuple(sorted({each.member for each in filling & self._present})),
                )

    def _list_paths(self) -> Iterable[str]:
        """The fields of the rules, whether they have a value or not."""
        return (
            *self._trial.fields,
            *(path for each in self._trial.failures for path in (each.field, *each.dependents)),
        )

    def _list_points(
        self, issues: Sequence[ReadinessIssue], open_parts: Mapping[int, Sequence[PointPart]]
    ) -> Iterator[PointReadiness]:
        states: dict[int, PointState] = {}
        for issue in sorted(issues, key=lambda issue: (_SEVERITIES.index(issue.severity), _KINDS.index(issue.kind))):
            for number in issue.points:
                states.setdefault(number, issue.kind)
        for point in POINTS:
            status, is_open = self._get_status(point), bool(open_parts[point.number])
            state = states.get(point.number, "empty" if is_open else "filled")
            if status in {"X", "P"}:
                state = "not_asked"
            elif status != "M" and is_open and state == "missing":
                state = "empty"
            yield PointReadiness(point.number, status, state)


def _get_finding_kind(finding: Finding) -> IssueKind:
    return _FINDING_KINDS.get(finding.code, "implausible")


def _get_order(issue: ReadinessIssue) -> tuple[int, int, int, str]:
    point = issue.points[0] if issue.points else len(POINTS) + 1
    return _SEVERITIES.index(issue.severity), point, _KINDS.index(issue.kind), issue.says


def _sort_members(members: Iterable[FactMember]) -> list[FactMember]:
    return sorted(members)


def _list_cells(members: Iterable[FactMember]) -> tuple[TemplateCell, ...]:
    cells = (find_template_cell(*member) for member in members)
    return tuple(dict.fromkeys(cell for cell in cells if cell is not None))


def _collect_points(members: Iterable[FactMember]) -> set[int]:
    """The data points that members serve."""
    points: set[int] = set()
    for fact_type, member in members:
        schema_member = SCHEMA_MEMBERS.get(FactRecordType(fact_type, SCHEMA_VERSION), {}).get(member)
        points.update(() if schema_member is None else schema_member.points)
    return points


def _get_top_member(member: str) -> str:
    """The member of the fact, of a place such as `risks[0].category` or `list.member`."""
    return member.partition(".")[0].partition("[")[0]


def assess_products(rules: TrialRules, products: Sequence[ProductFacts]) -> list[Readiness]:
    """Try the rules on each product, and assess it. May run in a child process."""
    reads = build_reads(rules.dsl)
    return [
        assess_readiness(product.sku, product.facts, product.findings, try_product(rules, product), reads)
        for product in products
    ]


@lru_cache(maxsize=8)
def build_reads(dsl: bytes) -> RuleReads:
    """What rules read. Expensive, so the last few are cached."""
    return RuleReads(load_machine(dsl).program)
