"""Check what fields are for people: data points, languages, and texts that say something.

None of it changes a value: it is read by what shows passports to people.
"""

import re
from collections.abc import Mapping
from typing import Final

from bpc.core.facts.folding import fold_text
from bpc.core.language import syntax, typed
from bpc.core.language.checking.context import Checker
from bpc.core.language.source import DiagnosticNote, Span

# The data points of the Commission's guidance.
MAX_POINT: Final = 71
MAX_PART: Final = 20
MAX_ORDER: Final = 9_999
# The official languages of the Union (Regulation No 1), by ISO 639-1.
LANGUAGES: Final[Mapping[str, str]] = {
    "bg": "Bulgarian",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "hr": "Croatian",
    "hu": "Hungarian",
    "it": "Italian",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mt": "Maltese",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sv": "Swedish",
}

_CODES_BY_NAME: Final = {fold_text(name): code for code, name in LANGUAGES.items()}
# Codes of countries that are written for those of their languages.
_OTHER_CODES: Final = {"gr": "el", "cz": "cs", "dk": "da", "ee": "et", "ie": "ga", "se": "sv", "si": "sl"}
_POINT: Final = re.compile(r"DP0*([0-9]+)(?:\.0*([0-9]+))?")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029]")
# The clauses of one line, and what they are called in a message.
_LINES: Final = {"group": "group", "cite": "citation", "unit": "unit", "label": "label"}


def check_about(checker: Checker, about: syntax.About) -> typed.FieldAbout:
    """What a field is for people. Mistakes are reported; what is wrong is left out."""
    check_line(checker, about.label, "label")
    values: dict[tuple[str, str | None], str] = {}
    first_spans: dict[tuple[str, str | None], Span] = {}
    order: int | None = None
    for clause in about.clauses:
        word, language = clause.word.text, _check_language(checker, clause)
        key = word, language
        if first_spans.setdefault(key, clause.span) is not clause.span:
            _report_second(checker, clause, first_spans[key])
        elif isinstance(clause.value, syntax.NumberLiteral):
            order = _check_order(checker, clause.value)
        else:
            values[key] = clause.value.value
            if word in _LINES:
                check_line(checker, clause.value, _LINES[word])
            else:
                _check_blank(checker, clause.value, word)
    codes = dict.fromkeys(language for word, language in values if language is not None)
    return typed.FieldAbout(
        point=None if about.point is None else _check_point(checker, about.point),
        label=about.label.value,
        group=values.get(("group", None)),
        order=order,
        citation=values.get(("cite", None)),
        unit=values.get(("unit", None)),
        help=values.get(("help", None)),
        translations={
            code: typed.FieldTranslation(values.get(("label", code)), values.get(("help", code))) for code in codes
        },
    )


def warn_of_missing_abouts(checker: Checker, rules_by_path: Mapping[str, syntax.Rule]) -> None:
    """Warn of visible fields that say nothing of what they are, if others do."""
    if all(rule.about is None for rule in rules_by_path.values()):
        return
    for path, rule in rules_by_path.items():
        if rule.about is None and rule.audiences:
            message = f"`{path}` has no `about`, so people see its path where other fields have a label"
            span = Span(rule.path[0].span.start, rule.path[-1].span.end)
            checker.findings.warning("missing-about", span, message, 'write `about "label"` before its `;`')


def check_line(checker: Checker, text: syntax.TextLiteral, what: str) -> None:
    """A text for people that stands on one line."""
    if _check_blank(checker, text, what) and _CONTROL.search(text.value):
        checker.error("bad-label", text.span, f"the {what} has more than one line", "leave the line break out")


def _check_blank(checker: Checker, text: syntax.TextLiteral, what: str) -> bool:
    if text.value.strip():
        return True
    hint = "say in a few words what the field is" if what == "label" else "leave it out, or say something"
    checker.error("bad-label", text.span, f"the {what} is blank", hint)
    return False


def _check_point(checker: Checker, point: syntax.Name) -> str | None:
    match = _POINT.fullmatch(point.text)
    number, part = (0, None) if match is None else (int(match[1]), match[2])
    if not 1 <= number <= MAX_POINT:
        message = f"there is no data point {point.text.removeprefix('DP')}"
        checker.error("unknown-point", point.span, message, f"the data points are `DP1` to `DP{MAX_POINT}`")
        return None
    if part is None:
        return str(number)
    if not 1 <= int(part) <= MAX_PART:
        message = f"there is no part {part} of data point {number}"
        checker.error("unknown-point", point.span, message, f"parts are counted from 1 to {MAX_PART}")
        return None
    return f"{number}.{int(part)}"


def _check_language(checker: Checker, clause: syntax.AboutClause) -> str | None:
    if clause.language is None:
        return None
    code, span = clause.language.text, clause.language.span
    if code == "en":
        message = f"the English {clause.word.text} is written without a language"
        other = "the label after `about`" if clause.word.text == "label" else '`help "…"` without `en`'
        checker.error("duplicate-clause", span, message, f"write {other}")
    elif code not in LANGUAGES:
        word = fold_text(code)
        meant_code = _OTHER_CODES.get(word) or _CODES_BY_NAME.get(word)
        meant_code = meant_code or (word if word in LANGUAGES else None)
        help_ = f"`{meant_code}` is {LANGUAGES[meant_code]}" if meant_code else f"the codes are {', '.join(LANGUAGES)}"
        checker.error(
            "unknown-language-code", span, f"`{code}` is not the code of an official language of the Union", help_
        )
    return code


def _check_order(checker: Checker, number: syntax.NumberLiteral) -> int | None:
    if len(number.digits) > len(str(MAX_ORDER)):
        checker.error("number-too-large", number.span, f"an order is at most {MAX_ORDER:,}")
        return None
    return int(number.digits)


def _report_second(checker: Checker, clause: syntax.AboutClause, first: Span) -> None:
    word = clause.word.text if clause.language is None else f"{clause.word.text} {clause.language.text}"
    note = DiagnosticNote(first, "the first is here")
    checker.error("duplicate-clause", clause.span, f"`{word}` is written twice", "leave one of them out", note)
