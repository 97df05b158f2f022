"""What-if: which fields of an active passport a trial would change. Pure.

Only changes that the tried rules or documents cause are listed. What would change anyway, because other documents were
accepted since the passport was issued, is only counted.

    payload of the passport, Trial, Trial without the change ── compare_with_trial ──► TrialDifference
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluation import ComplianceEntry
from bpc.core.passport.payload import get_at_path
from bpc.core.readiness.difference import ComplianceDifference, compare_compliance
from bpc.core.readiness.trial import FactProblem, FieldFailure, ProductFacts, Trial, TrialRules, try_product


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that would have another value; None where there is none."""

    path: str
    before: Json
    after: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDifference:
    """What a trial would change. `pending` fields would change without it, too."""

    fields: tuple[FieldChange, ...]
    compliance: tuple[ComplianceDifference, ...]
    failures: tuple[FieldFailure, ...]
    problems: tuple[FactProblem, ...]
    pending: int

    @property
    def is_empty(self) -> bool:
        return not (self.fields or self.compliance or self.failures or self.problems)


def compare_with_trial(payload: bytes, trial: Trial, baseline: Trial | None = None) -> TrialDifference:
    """What the trial changes in a passport. `baseline` is the trial of what is known without the change."""
    document: Any = canonical_json.decode(payload)
    changes, pending = [], 0
    for path in sorted(document["access"].keys() | trial.fields.keys()):
        before, after = _get_field(document["fields"], path), trial.fields.get(path)
        if _is_same(before, after):
            continue
        if baseline is not None and _is_same(baseline.fields.get(path), after):
            pending += 1
        else:
            changes.append(FieldChange(path=path, before=before, after=after))
    new_entries = [_describe_entry(entry) for entry in trial.compliance]
    entries = compare_compliance([_take_common(entry) for entry in document["compliance"]], new_entries)
    if baseline is not None:
        old_entries = [_describe_entry(entry) for entry in baseline.compliance]
        new_names = {(each.code, each.field) for each in compare_compliance(old_entries, new_entries)}
        entries = tuple(
            each for each in entries if each.after not in old_entries and (each.code, each.field) in new_names
        )
    return TrialDifference(
        fields=tuple(changes),
        compliance=entries,
        failures=tuple(each for each in trial.failures if baseline is None or each not in baseline.failures),
        problems=tuple(each for each in trial.problems if baseline is None or each not in baseline.problems),
        pending=pending,
    )


def _get_field(fields: Mapping[str, Json], path: str) -> Json:
    values = get_at_path(fields, path)
    return values[0] if values else None


def _is_same(one: Json, other: Json) -> bool:
    return canonical_json.encode(one) == canonical_json.encode(other)  # bytes, because True == 1 to Python


# Many at once, which may run in a child process


class RuleTrial(NamedTuple):
    """What is needed to try rules on a product."""

    rules: TrialRules
    product: ProductFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportTrial:
    """What is needed to compare one passport. `changed` is the trial of the documents, where they are what is tried."""

    payload: bytes
    now: RuleTrial
    trial_with_documents: Trial | None = None


def try_products(trials: Sequence[RuleTrial]) -> list[Trial]:
    """Try the rules of each product."""
    return [try_product(*each) for each in trials]


def compare_passports_with_trials(passports: Sequence[PassportTrial]) -> list[TrialDifference]:
    """Try each passport."""
    results = []
    for each in passports:
        now = try_product(*each.now)
        if each.trial_with_documents is None:
            results.append(compare_with_trial(each.payload, now))
        else:
            results.append(compare_with_trial(each.payload, each.trial_with_documents, now))
    return results


def _take_common(entry: Mapping[str, str]) -> dict[str, str]:
    """What is compared of an entry of a payload of any version; the texts in its message are in the message."""
    members = {name: entry[name] for name in ("code", "field", "message", "status")}
    return {**members, "verdict": entry.get("verdict", "assessed")}


def _describe_entry(entry: ComplianceEntry) -> dict[str, str]:
    return {**entry.to_json(), "verdict": entry.verdict}
