"""What the rule workbench shows beside its texts: mistakes, places that no test reached, and words for its editor."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit

# Two texts of 1 MiB each; in a form, a character can take three times its size.
LARGEST_TEXTS_BYTES: Final = 7_000_000
RULES_FILE: Final = "rules.bpc"
TESTS_FILE: Final = "tests.bpc"
# What the editor says; its script has no words of its own.
PHRASES: Final[Mapping[str, str]] = {
    "connecting": N_("Connecting to the language server …"),
    "none": N_("No mistakes."),
    "count": N_("{errors} errors, {warnings} warnings"),
    "fix": N_("Fix"),
    "noFix": N_("There is no automatic fix here. The message says what to do."),
    "running": N_("The tests run …"),
}
ENDS: Final[Mapping[str, str]] = {
    "refused": N_("The console refused what the editor sent. Your text is still here; load the page again."),
    "signedOut": N_("You are signed out. Copy your text, then sign in again."),
    "forbidden": N_("You may not read rules any more. Copy your text, then ask an administrator."),
    "idle": N_("The language server was stopped, because nothing was typed for a while. Your text is still here."),
    "tooLong": N_("Checking took too long and was stopped. Make the rules smaller, or check them with the command."),
    "tooMany": N_("Too many editors are open. Close one in another window, then load the page again."),
    "tooLarge": N_("The text is too large for the editor: it takes at most 1 MiB."),
    "lost": N_("The connection is lost. Your text is still here, and can be saved."),
}
EDITOR_PHRASES: Final = (
    N_("Find"),
    N_("Replace"),
    N_("next"),
    N_("previous"),
    N_("all"),
    N_("match case"),
    N_("by word"),
    N_("regexp"),
    N_("replace"),
    N_("replace all"),
    N_("close"),
    N_("New name"),
    N_("rename"),
    N_("Diagnostics"),
    N_("No diagnostics"),
    N_("Completions"),
)


def make_workbench(
    rules: str,
    tests: str,
    *,
    diagnostics: Sequence[Mapping[str, Any]] = (),
    is_checked: bool = False,
    unreached: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The texts of a workbench with what is known of their places. Places of coverage are pairs of a line and words."""
    return {
        "documents": [
            {
                "file": RULES_FILE,
                "field": "dsl_source",
                "text": rules,
                "coverage": _list_coverage(unreached, RULES_FILE),
            },
            {"file": TESTS_FILE, "field": "tests_source", "text": tests, "coverage": []},
        ],
        "diagnostics": diagnostics,
        "is_checked": is_checked,
    }


def _list_coverage(unreached: Sequence[Mapping[str, Any]], file: str) -> list[tuple[int, str, str]]:
    """The places that no test reached, a line each: line, kind, label."""
    by_line = {
        place["line"]: (place["line"], place["kind"], place["label"]) for place in unreached if place["file"] == file
    }
    return [by_line[line] for line in sorted(by_line)]


def translate_phrases(visit: Visit) -> dict[str, Any]:
    """The words of the editor in the language of the page."""
    return {
        **{name: visit.translate(text) for name, text in PHRASES.items()},
        "ends": {name: visit.translate(text) for name, text in ENDS.items()},
        "editor": {text: visit.translate(text) for text in EDITOR_PHRASES},
    }


def read_texts(visit: Visit) -> tuple[str, str]:
    """The two texts of a form. Browsers send `\\r\\n` for each end of a line."""
    rules, tests = (visit.form.fields.get(name, "").replace("\r\n", "\n") for name in ("dsl_source", "tests_source"))
    return rules, tests
