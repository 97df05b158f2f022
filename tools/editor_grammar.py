"""Write what colours rules from the table of their words: the TextMate grammar, and the words of the console's editor.

    tools/editor_grammar.py

Both colour a file before a language server answers, and where none runs. Tests compare them with the lexer on every
rule file of this repository.
"""

import json
from pathlib import Path
from typing import Any

from bpc.core.language.checking.calls import FUNCTIONS
from bpc.core.language.editing.language_words import KEYWORDS
from bpc.core.language.parsing.lexer import RESERVED

GRAMMAR = Path(__file__).resolve().parent.parent / "editors" / "vscode" / "syntaxes" / "bpc.tmLanguage.json"

CONSOLE_WORDS = GRAMMAR.parents[2] / "console" / "src" / "words.js"

# A word that is not a part of a longer one, nor of a path.
START, END = r"(?<![A-Za-z0-9_.])", r"(?![A-Za-z0-9_])"
# Words of groups, and what they are called in a grammar.
SCOPES = {
    "item": "keyword.declaration.bpc",
    "expression": "keyword.control.bpc",
    "constant": "constant.language.bpc",
    "clause": "keyword.other.bpc",
    "test": "keyword.other.test.bpc",
}
SIGNS = r"=>|==|!=|<=|>=|&&|\|\||\?\?|[-+*/<>=!|]"


def list_words(*groups: str, reserved: bool) -> str:
    words = [word for word, keyword in KEYWORDS.items() if keyword.group in groups and (word in RESERVED) == reserved]
    return "|".join(sorted(words))


def build_grammar() -> dict[str, Any]:
    """The grammar; a word that is reserved nowhere counts only before what can follow it."""
    patterns: list[dict[str, Any]] = [{"include": "#comment"}, {"include": "#text"}]
    patterns.append({"name": "constant.numeric.bpc", "match": r"(?<![A-Za-z0-9_])[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_.])"})
    patterns.append({"name": "constant.other.point.bpc", "match": rf"{START}DP[0-9]{{1,2}}(?:\.[0-9]{{1,2}})?{END}"})
    patterns.append({"name": "storage.modifier.bpc", "match": f"@(?:{list_words('audience', reserved=False)}){END}"})
    patterns.append({"name": "storage.type.bpc", "match": f"{START}(?:{list_words('type', reserved=False)}){END}"})
    for group, scope in SCOPES.items():
        words = list_words(group, reserved=True)
        if words:
            patterns.append({"name": scope, "match": f"{START}(?:{words}){END}"})
    functions = "|".join(sorted([*FUNCTIONS, *list_words("literal", reserved=False).split("|")]))
    patterns.append({"name": "support.function.bpc", "match": rf"{START}(?:{functions}){END}(?=\s*\()"})
    for group, scope in SCOPES.items():
        words = list_words(group, reserved=False)
        if words:
            follows = r"(?=\s*[(\"{:]|\s+[A-Za-z0-9_\"(]|\s*;|\s*$)(?!\s*=[^=>])"
            patterns.append({"name": scope, "match": f"{START}(?:{words}){END}{follows}"})
    patterns.append({"name": "keyword.operator.bpc", "match": SIGNS})
    return {
        "name": "BPC rules",
        "scopeName": "source.bpc",
        "fileTypes": ["bpc"],
        "patterns": patterns,
        "repository": {
            "comment": {"name": "comment.line.double-dash.bpc", "match": "--.*$"},
            "text": {
                "name": "string.quoted.double.bpc",
                "begin": '"',
                "end": '"|$',
                "patterns": [
                    {"name": "constant.character.escape.bpc", "match": r"\\(?:u[0-9A-Fa-f]{4}|.)"},
                    {
                        "match": r"(\{)([^{}\"\\]*)(\})",
                        "captures": {
                            "1": {"name": "punctuation.section.embedded.bpc"},
                            "2": {"name": "meta.embedded.bpc"},
                            "3": {"name": "punctuation.section.embedded.bpc"},
                        },
                    },
                ],
            },
        },
    }


def format_grammar() -> str:
    return json.dumps(build_grammar(), indent=2, ensure_ascii=False) + "\n"


def build_console_words() -> dict[str, Any]:
    """The words by what they are coloured as. `free` are those that are reserved nowhere."""
    kinds = {group: "atom" if group == "constant" else "keyword" for group in SCOPES}
    words = {word: keyword for word, keyword in KEYWORDS.items() if keyword.group in kinds}
    return {
        "reserved": {word: kinds[keyword.group] for word, keyword in sorted(words.items()) if word in RESERVED},
        "free": {word: kinds[keyword.group] for word, keyword in sorted(words.items()) if word not in RESERVED},
        "types": list_words("type", reserved=False).split("|"),
        "functions": sorted([*FUNCTIONS, *list_words("literal", reserved=False).split("|")]),
    }


def format_console_words() -> str:
    words = json.dumps(build_console_words(), indent=2)
    return f"// Made from the words of the language by tools/editor_grammar.py.\nexport const WORDS = {words};\n"


if __name__ == "__main__":
    GRAMMAR.write_text(format_grammar())
    CONSOLE_WORDS.write_text(format_console_words())
