"""The page where people ask to see more of a passport, and the page that a grantee sees. Texts, no markup.

Pure.

    Wording, AccessForm ── build_access_page ─► what the page with both forms says
    page of a passport, view ── mark_as_granted ─► the same with the view in it, and whose it is
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bpc.core.catalogue.product_texts import AUDIENCE_WORDS, SHEET_TEXTS
from bpc.core.catalogue.wording import Wording
from bpc.core.exports.page_words import PageWords
from bpc.core.formats import canonical_json
from bpc.core.view_grants import GRANT_AUDIENCES, MAX_CONTACT_CHARS, MAX_REQUEST_BYTES

# What the script says, by the reason of a refusal.
SCRIPT_PROBLEMS: Final[Mapping[str, str]] = {
    "unknown": "access_unknown",
    "ended": "access_over",
    "elsewhere": "access_elsewhere",
    "terms": "access_terms_first",
    "wait": "access_wait",
    "failed": "access_failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessForm:
    """What the forms show beside their labels: what was sent before, and what was wrong with it.

    `problem` and `ask_problem` are names of texts. `terms` are to be accepted first; empty for the standard ones.
    """

    code: str = ""
    terms: str | None = None
    problem: str = ""
    ask_problem: str = ""
    is_sent: bool = False
    sent_form: Mapping[str, str] = field(default_factory=dict)


def build_access_page(wording: Wording, form: AccessForm, *, title: str, issuer: str) -> Mapping[str, Any]:
    """Everything that the page with both forms says."""
    words = PageWords(wording)
    terms = form.terms or words.translate("access_standard_terms")
    evidence: canonical_json.Json = {
        "words": {name: words.translate(text) for name, text in SCRIPT_PROBLEMS.items()},
        "standard_terms": words.translate("access_standard_terms"),
    }
    return {
        "language": wording.language,
        "words": words.list_plain(),
        "sheet_words": {"passport": wording.translate("sheet", SHEET_TEXTS["passport"])},
        "title": title,
        "ask_says": words.translate("access_ask_says", issuer=issuer),
        "audiences": [(name, _translate_audience(wording, name)) for name in GRANT_AUDIENCES],
        "code": form.code,
        "needs_terms": form.terms is not None,
        "terms": terms,
        "problem": words.translate(form.problem) if form.problem else "",
        "ask_problem": words.translate(form.ask_problem) if form.ask_problem else "",
        "is_sent": form.is_sent,
        "sent": {name: form.sent_form.get(name, "") for name in ("audience", "name", "contact", "purpose", "evidence")},
        "most_chars": MAX_CONTACT_CHARS,
        "most_bytes": MAX_REQUEST_BYTES,
        "evidence": evidence,
    }


def mark_as_granted(
    page: Mapping[str, Any], wording: Wording, *, view: bytes, audience: str, last_day: str, is_of_battery: bool
) -> Mapping[str, Any]:
    """The page of a passport as a grantee sees it. The browser checks the view that is in the page itself."""
    words = PageWords(wording)
    reader = _translate_audience(wording, audience)
    changed_words = {"all_data": words.translate("granted_data")}
    if is_of_battery:
        changed_words["of_model"] = ""
    evidence = page["evidence"]
    steps = {**evidence["steps"], "completeness": words.translate("step_granted")}
    return {
        **page,
        "words": {**page["words"], **changed_words},
        "granted": words.translate("granted_says", audience=reader, day=words.format_day(last_day)),
        "evidence": {**evidence, "steps": steps, "view": view.decode()},
    }


def _translate_audience(wording: Wording, audience: str) -> str:
    return wording.translate(f"audience {audience}", AUDIENCE_WORDS[audience])
