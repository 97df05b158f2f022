"""Plausibility of texts: values of lists, web and e-mail addresses, CAS numbers, GTIN and GLN.

Pure. Nothing is looked up: that an address is public says that it can be reached from the Internet, not that it is.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bpc.core.facts.enumerations import ENUMERATIONS, Enumeration, normalize_value
from bpc.core.facts.fact_view import FactView, quote_value
from bpc.core.facts.findings import Finding
from bpc.core.facts.folding import fold_text
from bpc.core.outbound_urls import BadUrl, is_public, parse_destination

_URL: Final = re.compile(
    r"https?://(?:[^/?#\s@]*@)?(\[[0-9A-Fa-f:.]+\]|[^/?#\s:@]+)(?::[0-9]+)?(?:[/?#]\S*)?", re.IGNORECASE
)
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
# RFC 6761, RFC 6762 and RFC 9476, and names that routers and companies use at home.
_LOCAL_HOST: Final = re.compile(
    r"(?:.+\.)?(?:localhost|local|internal|intranet|lan|home|corp|private|test|invalid|home\.arpa)|[^.]+",
    re.IGNORECASE | re.ASCII,
)
_EXAMPLE_HOST: Final = re.compile(r"(?:.+\.)?(?:example|example\.(?:com|net|org))", re.IGNORECASE | re.ASCII)
# Folded: what people write into a cell that must not be empty, in six languages.
PLACEHOLDERS: Final = frozenset(
    {
        *("", "?", "??", "???", "xxx", "n a", "n v", "k a", "tbd", "tba", "tbc", "todo", "n d"),
        *("unknown", "not known", "not available", "not applicable", "none known", "to be determined", "pending"),
        *("unbekannt", "nicht bekannt", "keine angabe", "keine angaben", "nicht verfugbar", "nicht zutreffend"),
        *("inconnu", "inconnue", "non connu", "non disponible", "sans objet", "a definir"),
        *("desconocido", "desconocida", "no disponible", "no aplica", "por determinar"),
        *("sconosciuto", "sconosciuta", "non disponibile", "non applicabile", "da definire"),
        *("nieznany", "nieznana", "nieznane", "brak danych", "nie dotyczy", "do ustalenia"),
    }
)
_EMAIL: Final = re.compile(r"[^@\s,;<>]+@[^@\s,;<>.]+(?:\.[^@\s,;<>.]+)+")
_CAS: Final = re.compile(r"([0-9]{2,7})-([0-9]{2})-([0-9])")
# GS1 Digital Link: 01 is a GTIN, 414 and 417 are a GLN.
_GS1_KEY: Final = re.compile(r"/(?:01/([0-9]{8}|[0-9]{12,14})|41[47]/([0-9]{13}))(?=[/?#]|$)")

_IDENTIFIERS: Final = frozenset({"passport_uri", "previous_passport_uri"})
_WITH_GS1_KEYS: Final = frozenset({*_IDENTIFIERS, "operator_id", "manufacturer_id", "facility_id"})
# A value of such a list needs no more than a hint at its form.
_MAX_SHOWN_VALUES: Final = 8


def check_texts(view: FactView) -> Iterator[Finding]:
    """Every text of a fact that does not have the form its name promises."""
    for member, value in view.members.items():
        if isinstance(value, str):
            yield from check_listed_value(view, member, member, value)
            yield from _check_form(view, member, member, value)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from _check_item(view, member, f"{member}[{index}]", item)


def _check_item(view: FactView, member: str, place: str, item: Any) -> Iterator[Finding]:
    if isinstance(item, str):
        yield from check_listed_value(view, member, place, item)
        yield from _check_form(view, member, place, item)
    elif isinstance(item, Mapping):
        for name, value in item.items():
            if isinstance(value, str):
                yield from _check_form(view, member, f"{place}.{name}", value)


def check_listed_value(view: FactView, member: str, place: str, text: str) -> Iterator[Finding]:
    """What is wrong with a value of a list, for a member that takes one of a few values."""
    enumeration = ENUMERATIONS.get((view.kind.name, member))
    if enumeration is None or text in enumeration.values:
        return
    canonical = normalize_value(view.kind.name, member, text)
    if canonical is not None:
        yield view.report("VALUE_SPELLING", [member], member=place, value=quote_value(text), canonical=canonical)
    elif not enumeration.is_open:
        values = describe_values(enumeration)
        yield view.report("UNKNOWN_VALUE", [member], member=place, value=quote_value(text), values=values)


def describe_values(enumeration: Enumeration) -> str:
    """The values of a list in words: all of a few, the first of many."""
    names = [f"`{value}`" for value in enumeration.values]
    if len(names) > _MAX_SHOWN_VALUES:
        return f"one of {len(names)} values such as {names[0]}"
    return f"one of {', '.join(names)}"


def _check_form(view: FactView, member: str, place: str, text: str) -> Iterator[Finding]:
    name = place.rpartition(".")[2].partition("[")[0]
    if name in _IDENTIFIERS or name == "url" or name.endswith(("_url", "_urls")):
        yield from _check_url(view, member, place, text)
    if name in _WITH_GS1_KEYS:
        yield from _check_gs1_keys(view, member, text)
    if text and fold_text(text) in PLACEHOLDERS:
        yield view.report("PLACEHOLDER", [member], member=place, value=quote_value(text))
    if name == "cas_number":
        yield from _check_cas_number(view, member, place, text)
    if (name == "email" or name.endswith("_email")) and not _EMAIL.fullmatch(text):
        yield view.report("EMAIL_FORM", [member], member=place, value=quote_value(text))


def _check_url(view: FactView, member: str, place: str, text: str) -> Iterator[Finding]:
    code = _find_url_problem(text, is_identifier=place in _IDENTIFIERS)
    if code is not None:
        yield view.report(code, [member], member=place, value=quote_value(text))


def _find_url_problem(text: str, *, is_identifier: bool) -> str | None:
    match = _URL.fullmatch(text)
    if match is None:
        # An identifier may be of another kind, such as a DID or a URN.
        is_other_kind = is_identifier and _URI.fullmatch(text) and not text.startswith(("http:", "https:"))
        return None if is_other_kind else "URL_FORM"
    host = match[1].removesuffix(".")
    if not host.isascii():  # a name in another alphabet, which is never a local one
        return None
    try:
        address = parse_destination(f"https://{host}", https_only=True).address
    except BadUrl:
        return "URL_FORM"
    if address is not None:
        return None if is_public(address) else "URL_NOT_PUBLIC"
    if _EXAMPLE_HOST.fullmatch(host):
        return "URL_EXAMPLE"
    return "URL_NOT_PUBLIC" if _LOCAL_HOST.fullmatch(host) else None


def _check_cas_number(view: FactView, member: str, place: str, text: str) -> Iterator[Finding]:
    parts = _CAS.fullmatch(text)
    expected = None if parts is None else compute_cas_digit(parts[1] + parts[2])
    if parts is None or parts[3] != expected:
        hint = "" if expected is None else f"; its last digit would be {expected}"
        yield view.report("CAS_NUMBER", [member], member=place, value=quote_value(text), expected=hint)


def compute_cas_digit(digits: str) -> str:
    """The check digit of a CAS number: the digits weighted 1, 2, 3 … from the right, modulo ten."""
    return str(sum(weight * int(digit) for weight, digit in enumerate(reversed(digits), start=1)) % 10)


def _check_gs1_keys(view: FactView, member: str, text: str) -> Iterator[Finding]:
    for match in _GS1_KEY.finditer(text):
        number = match[1] or match[2]
        expected = compute_gs1_digit(number[:-1])
        if number[-1] != expected:
            yield view.report("GS1_CHECK_DIGIT", [member], member=member, value=number, expected=expected)


def compute_gs1_digit(digits: str) -> str:
    """The check digit of a GTIN or GLN, GS1 General Specifications 7.9: weights 3 and 1 from the right."""
    total = sum(int(digit) * (3 if index % 2 == 0 else 1) for index, digit in enumerate(reversed(digits)))
    return str(-total % 10)
