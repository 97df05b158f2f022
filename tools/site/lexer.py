"""Colours for the rule language, on the site."""

from typing import ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

WORDS = (
    "field",
    "example",
    "property",
    "let",
    "if",
    "then",
    "else",
    "assert",
    "fn",
    "given",
    "forall",
    "fact",
    "enum",
    "match",
    "table",
)
TYPES = ("Bool", "Int", "Dec", "Qty", "Text", "Date", "Opt", "List", "Map", "Record")


class RuleLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """Near enough for reading; the compiler has a lexer that is exact."""

    name = "BPC rules"
    aliases: ClassVar = ["bpc", "bpc-wrong", "bpc-fragment"]
    tokens: ClassVar = {
        "root": [
            (r"--[^\n]*", Comment.Single),
            (r'"(\\.|[^"\\\n])*"?', String.Double),
            (words(WORDS, prefix=r"\b", suffix=r"\b"), Keyword),
            (words(TYPES, prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (r"\b(true|false|none|any)\b", Keyword.Constant),
            (r"@\w+", Name.Decorator),
            (r"\b[A-Za-z_]\w*(?=\s*\()", Name.Function),
            (r"\b\d+(\.\d+)?\b", Number),
            (r"[A-Za-z_]\w*", Name),
            (r"=>|==|!=|<=|>=|&&|\|\||[-+*/<>=!]", Operator),
            (r"[][(){},;:.]", Punctuation),
            (r"\s+|.", Text),
        ],
    }
