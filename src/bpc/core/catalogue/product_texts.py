"""What the product itself says to people who read a passport, in English: the texts of its own catalogues. A table.

Pure data. The 71 data points, their parts and groups; words for values; what a print says around them. The other
languages are in `bpc/printing/words`, a PO file each. A package's own texts are in its own catalogue.
"""

from collections.abc import Mapping
from typing import Final

from bpc.core.catalogue.po_file import PoEntry, escape_braces
from bpc.core.catalogue.wording import CALCULATION_WORDS
from bpc.core.exports.data_points import POINTS
from bpc.core.exports.point_parts import PARTS

# The groups of Annex XIII, and the first data point of each.
GROUPS: Final[Mapping[int, str]] = {
    1: "Identification and manufacturer",
    10: "The battery and what it is made of",
    17: "Carbon footprint and responsible sourcing",
    20: "Recycled and renewable content",
    25: "Performance and durability",
    40: "Marking, conformity and waste",
    45: "Composition, spare parts and dismantling",
    50: "Test reports",
    51: "State of this battery",
}
STATUS_WORDS: Final[Mapping[str, str]] = {
    "PASS": "Met",
    "WARN": "Warning",
    "FAIL": "Not met",
    "NOT_APPLICABLE": "Not applicable",
}
VERDICT_WORDS: Final[Mapping[str, str]] = {
    "assessed": "assessed",
    "not_yet_in_force": "not yet in force",
    "undetermined": "not yet determined",
    "expired": "no longer in force",
    "out_of_scope": "does not apply to this battery",
}
AUDIENCE_WORDS: Final[Mapping[str, str]] = {
    "public": "everybody",
    "interest": "persons with a legitimate interest",
    "authority": "notified bodies, market surveillance authorities and the Commission",
    "tenant": "the issuer only",
}
# The same in a word or two, for a note.
SHORT_AUDIENCE_WORDS: Final[Mapping[str, str]] = {
    "interest": "legitimate interest",
    "authority": "authorities",
    "tenant": "issuer only",
}
# By data point, or by the member of a record, the words for values that facts hold.
VALUE_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "6": {
        "ev": "Electric vehicle battery",
        "lmt": "Battery for light means of transport",
        "industrial": "Industrial battery",
        "stationary": "Stationary battery energy storage system",
    },
    "67": {
        "original": "Original",
        "repurposed": "Repurposed",
        "re-used": "Re-used",
        "remanufactured": "Remanufactured",
        "waste": "Waste",
    },
    "location": {
        "cathode": "Cathode",
        "anode": "Anode",
        "electrolyte": "Electrolyte",
        "separator": "Separator",
        "casing": "Casing",
    },
    "limit": {"charging": "Charging", "discharging": "Discharging"},
}
# Words that rules put into their sentences.
SENTENCE_WORDS: Final = (
    *("cobalt", "lithium", "nickel", "lead", "cadmium", "mercury", "natural graphite"),
    *("original", "repurposed", "re-used", "remanufactured", "waste"),
    *CALCULATION_WORDS,
)
# The words of citations, as the rules write them: `Annex VI, Part A, point 5`.
LEGAL_WORDS: Final = ("Annex", "Article", "Articles", "Art", "Part", "point", "points", "and", "to")
SHEET_TEXTS: Final[Mapping[str, str]] = {
    "passport": "Battery passport",
    "regulation": "Regulation (EU) 2023/1542",
    "maker": "Manufacturer",
    "sku": "Product number",
    "issued": "Issued",
    "version": "Version",
    "readers": "Readers",
    "share": "{shown} of {total} fields",
    "all_fields": "All {total} fields, with the restricted ones. Not for handing on.",
    "online": "Passport online",
    "this_version": "Check this version",
    "qr_alt": "QR code: {text}",
    "checks": "Checks",
    "check_counts": "{total} checks: {passed} met, {warned} with a warning, {failed} not met, {skipped} not applicable",
    "no_failures": "No check failed",
    "failures": "Checks that failed: {failed}",
    "finding": "Finding",
    "status": "Status",
    "waived": "Checks that failed and that the issuer waived, with a reason on record: {count}",
    "collection": "Separate collection",
    "collection_says": "Waste batteries are collected separately and do not belong in household waste.",
    "cadmium_says": "Contains more than {limit} % cadmium by weight.",
    "lead_says": "Contains more than {limit} % lead by weight.",
    "restricted": "Restricted information",
    "restricted_says": "This print does not hold the following. Article 77(2) says who may read it.",
    "restricted_count": "Fields of this passport that are not in this print: {count}",
    "weakened": "Where the rules of this passport weaken those they extend",
    "how": "How to check this passport",
    "how_print": "A print proves nothing by itself: the passport is the signed file that it was printed from.",
    "how_scan": "Read the QR code of this version. It names the version and its hashes.",
    "how_ask": "Ask the issuer whether the version is still in force, and for the file of the passport.",
    "how_run": "Run this command with the issuer's public key, from a source that you trust. Every step must hold:",
    "how_compare": "Compare its hashes with those below. If one differs, this print is of another passport.",
    "hashes": "SHA-256 hashes",
    "signing": "Signature, Ed25519 over the hash of the receipt",
    "identifiers": "Identifiers",
    "payload": "Payload",
    "proof": "Proof",
    "receipt": "Receipt",
    "snapshot": "Snapshot",
    "rules": "Rules",
    "rule_tests": "Tests of the rules",
    "key": "Key",
    "compiler": "Compiler",
    "public_key": "Public key",
    "signature": "Signature",
    "product": "Battery product",
    "page": "Page {page} of {pages}",
    "not_stated": "Not stated",
    "none": "None",
    "yes": "Yes",
    "no": "No",
    "more_rows": "… and {count} more",
    "more_letters": "… (and {count} more characters)",
    "revoked": "Revoked on {day}. This passport does not count any more.",
    "issued_footer": "Battery passport {version}, issued on {day}",
}

# What the public page of a passport says besides.
PAGE_TEXTS: Final[Mapping[str, str]] = {
    "skip": "Skip to the passport",
    "language": "Language",
    "checking": "Checking this passport …",
    "verified": "Verified: this passport is in force and shows exactly what the issuer signed.",
    "unknown": "Genuine: every value below is exactly as the issuer signed it. Whether this passport is still in force "
    "could not be checked.",
    "altered": "Altered: this page does not show what the issuer signed.",
    "revoked": "Revoked: the issuer has withdrawn this passport.",
    "superseded": "Superseded: a newer version of this passport is in force.",
    "ceased": "Ceased: this passport ended with its battery.",
    "unsupported": "Not checked: this browser cannot check the signature.",
    "no_script": "Not checked: nothing below was verified, because this browser runs no scripts.",
    "no_view": "Not checked: this version has no file that the public can check.",
    "signature_valid": "Its signature is valid.",
    "because": "The issuer says why: {reason}",
    "against": "Checked in your browser, against the keys that {host} publishes.",
    "against_says": "This host serves the data, the keys and the program that checks them. To rely on none of that, "
    "check the file elsewhere.",
    "elsewhere": "Check the file elsewhere",
    "steps": "What was checked",
    "step_canonical": "The file is in its one form",
    "step_above": "The passport of its model",
    "step_links": "It belongs to this model",
    "step_receipt_hash": "Fingerprint of the receipt",
    "step_signature": "Signature of the issuer",
    "step_root": "Fingerprint of all values together",
    "step_completeness": "No public value is missing",
    "step_fields": "Each value has its signed fingerprint",
    "step_product": "It is about this product",
    "step_key_window": "The key was in use on that day",
    "step_proof_steps": "Computed again from the rules and the facts",
    "step_log": "Entry in the transparency log",
    "step_status": "What the issuer says of it since",
    "step_shown": "This page shows the signed values",
    "made_by": "Who made it",
    "made_when": "When and where",
    "recycled": "Recycled content",
    "recycled_says": "Share recovered from waste. The marks are the minimums of Article 8.",
    "minimum": "At least {share} % from {day}",
    "health": "State of health",
    "health_says": "From {first} % on {first_day} to {last} % on {last_day}",
    "completeness": "How complete it is",
    "completeness_says": "{filled} of {total} public data points that are mandatory for its category ({category}) are "
    "filled.",
    "share_filled": "{filled} of {total}",
    "origin": "Where does this come from?",
    "origin_stated": "A document that the issuer holds says so, and it is repeated unchanged.",
    "origin_computed": "Computed from what this page shows: {parts}.",
    "origin_hidden": "Computed by the rules of the issuer from statements of which not all are public. Who may see the "
    "whole proof can follow every step.",
    "origin_ruled": "It follows from the rules and the product alone; no document was needed.",
    "hazardous": "Hazardous substances",
    "fire": "In a fire",
    "return": "How to return it",
    "all_data": "All public data",
    "all_data_says": "In the order of Annex XIII, each with where the law asks for it.",
    "ask_says": "Who has a right to it asks the issuer: {contact}",
    "versions": "Versions",
    "in_force": "In force",
    "replaced": "Superseded",
    "withdrawn": "Revoked",
    "ended": "Ceased",
    "issued": "Issued",
    "go_on": "Go to the version in force",
    "since": "since {day}",
    "was_in_force": "in force from {start} to {end}",
    "on_day": "The passport as it was on",
    "show_day": "Show",
    "changes": "What changed since the version of {day}",
    "no_changes": "Nothing that is public.",
    "field": "Field",
    "value_before": "Before",
    "value_now": "Now",
    "downloads": "Downloads",
    "download_view": "Signed data (JSON)",
    "download_json_ld": "Linked data (JSON-LD)",
    "download_keys": "Keys of the issuer",
    "download_proof": "Proof of logging",
    "download_print": "For printing (PDF)",
    "download_bundle": "Everything (ZIP)",
    "download_view_says": "What this page shows, as the issuer signed it. For checking it elsewhere.",
    "download_json_ld_says": "The same values, each with a link to what it means. For programs.",
    "download_keys_says": "What signatures are checked with. Better: get them from somewhere else.",
    "download_proof_says": "Shows that the passport stands in a public log.",
    "download_print_says": "The same data as a document.",
    "download_bundle_says": "All that the passport was made of. For computing it again.",
    "codes": "On the label",
    "exported": "Copy of {day}. It does not know what happened after that.",
    "serial": "Serial number {number}",
    "of_model": "This is the passport of its model.",
    "own_passport": "This battery has a passport of its own, below that of its model.",
    "own_passport_id": "Passport of this battery",
    "model_superseded": "Genuine: this battery keeps the passport it was issued with. Its model has a newer one.",
    "item_ceased": "Ceased: this battery was recycled, and its passport has ended.",
    "item_moved": "This battery has another life now, with another passport.",
    "item_pending": "This battery is registered. Its passport is not public yet.",
    "to_successor": "Go to its passport of today",
    "to_model": "Go to the passport of its model",
    "access_link": "Ask to see more, or open it with a code",
    "access_title": "More than everybody sees",
    "access_says": "Some of the data is for persons with a legitimate interest and for authorities: Article 77(2).",
    "access_back": "Back to the public page",
    "access_code_title": "I have a code",
    "access_code_says": "The issuer has sent it to you. It begins with bpg_.",
    "access_code": "Code",
    "access_open": "Open the passport",
    "access_terms": "Terms",
    "access_standard_terms": "I use what I see only for the purpose that I named, and show it to nobody who has no "
    "right of their own to it. I know that each read is recorded and shown to the issuer.",
    "access_accept": "I accept these terms",
    "access_terms_first": "Read the terms, and accept them first.",
    "access_ask_title": "I want to ask for it",
    "access_ask_says": "{issuer} decides, and answers you directly. Only the issuer reads what you write.",
    "access_as": "You ask as one of",
    "access_name": "Who you are",
    "access_contact": "How to reach you",
    "access_purpose": "What you need it for",
    "access_evidence": "What shows that you have a right to it",
    "access_send": "Send the request",
    "access_sent": "Your request was sent. The issuer answers to the contact that you gave.",
    "access_unknown": "This code is not valid. Compare it with what you were sent.",
    "access_over": "This code is no longer valid: it has expired or was revoked.",
    "access_elsewhere": "This code is for another passport.",
    "access_wait": "Too many attempts. Wait a while, then try again.",
    "access_incomplete": "Something is missing, or the text is too long. Four thousand letters are the limit.",
    "access_failed": "It could not be opened. Try again.",
    "granted_says": "You see this passport as one of: {audience}. Your access ends on {day}. Each read is recorded and "
    "shown to the issuer.",
    "granted_data": "All data that you may see",
    "step_granted": "No value that you may see is missing",
    "verify_title": "Check a passport",
    "verify_says": "Drop a view or a bundle here. It is checked in this browser, and nothing is uploaded.",
    "verify_choose": "Choose a file",
    "verify_keys": "Keys that you trust (a key set, or one key in base64)",
    "verify_good": "Verified: the file is exactly as one of these keys signed it.",
    "verify_bad": "Altered: the file is not what one of these keys signed.",
    "verify_unchecked": "Not checked here; the command bpc verify does: {steps}",
}


def list_product_texts() -> list[PoEntry]:
    """Every text of the product's own catalogues."""
    entries = [
        *(PoEntry(context="sheet", source=text) for text in SHEET_TEXTS.values()),
        *(PoEntry(context="page", source=text) for text in PAGE_TEXTS.values()),
        *(PoEntry(context=f"status {name}", source=text) for name, text in STATUS_WORDS.items()),
        *(PoEntry(context=f"verdict {name}", source=text) for name, text in VERDICT_WORDS.items()),
        *(PoEntry(context=f"audience {name}", source=text) for name, text in AUDIENCE_WORDS.items()),
        *(PoEntry(context=f"access {name}", source=text) for name, text in SHORT_AUDIENCE_WORDS.items()),
        *(
            PoEntry(context=f"value {point}", source=text)
            for point, words in VALUE_WORDS.items()
            for text in words.values()
        ),
        *(PoEntry(context="word", source=text) for text in SENTENCE_WORDS),
        *(PoEntry(context="citation", source=text) for text in LEGAL_WORDS),
        *(PoEntry(context="group", source=text) for text in GROUPS.values()),
    ]
    for point in POINTS:
        context, parts = f"point {point.number}", PARTS[point.number]
        entries.append(PoEntry(context=context, source=escape_braces(point.name), notes=(point.source,)))
        entries += [
            PoEntry(context=f"{context}.{number}", source=escape_braces(part.name))
            for number, part in enumerate(parts, 1)
            if len(parts) > 1
        ]
    return list({entry.key: entry for entry in entries}.values())
