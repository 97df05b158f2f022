"""The texts of public pages in one language: those of the templates, and those that the script of the page shows."""

from collections.abc import Mapping
from typing import Final

from bpc.core.catalogue.number_format import format_day, format_number
from bpc.core.catalogue.product_texts import PAGE_TEXTS
from bpc.core.catalogue.wording import Wording
from bpc.core.formats import canonical_json

STEPS: Final = (
    "canonical",
    "above",
    "links",
    "receipt_hash",
    "signature",
    "root",
    "completeness",
    "fields",
    "product",
    "key_window",
    "proof_steps",
    "log",
    "status",
    "shown",
)
SCRIPT_WORDS: Final = (
    "verified",
    "unknown",
    "altered",
    "revoked",
    "superseded",
    "ceased",
    "unsupported",
    "no_view",
    "signature_valid",
    "go_on",
)
# What the script puts into texts itself, by the names of their arguments.
SCRIPT_ARGUMENTS: Final[Mapping[str, str]] = {"since": "day", "because": "reason"}


class PageWords:
    """The texts of pages in one language."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording

    def translate(self, name: str, **args: str) -> str:
        return self._wording.translate("page", PAGE_TEXTS[name], **args)

    def list_plain(self) -> dict[str, str]:
        """The texts without arguments, by name."""
        return {name: self.translate(name) for name, text in PAGE_TEXTS.items() if "{" not in text}

    def list_for_script(self) -> dict[str, canonical_json.Json]:
        """The texts that the script shows; where it puts something in, the name stands in braces."""
        texts: dict[str, canonical_json.Json] = {name: self.translate(name) for name in SCRIPT_WORDS}
        for name, argument in SCRIPT_ARGUMENTS.items():
            texts[name] = self.translate(name, **{argument: f"{{{argument}}}"})
        return texts

    def translate_group(self, name: str) -> str:
        """The name of a group of data points."""
        return self._wording.translate("group", name)

    def format_day(self, day: str) -> str:
        return format_day(self._wording.language, day)

    def format_number(self, number: str) -> str:
        return format_number(self._wording.language, number, decimals=2)
