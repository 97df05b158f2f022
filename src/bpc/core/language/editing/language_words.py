"""The words of the rule language, and what each built-in function does. docs/rules/functions.md has the whole of it.

Pure data. Most words of level 2 are reserved nowhere: they mean something at one place only. Editors colour them and
offer them; tests compare the tables with the parser, with the list of functions and with the editor's grammar.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

KeywordGroup: TypeAlias = Literal["item", "expression", "constant", "type", "audience", "clause", "test", "literal"]


class Keyword(NamedTuple):
    """A word, where it stands, and the first level that has it."""

    word: str
    group: KeywordGroup
    language: int = 1


def _list_keywords(group: KeywordGroup, words: str, language: int = 1) -> list[Keyword]:
    return [Keyword(word, group, language) for word in words.split()]


_ALL: Final = (
    # What starts an item
    *_list_keywords("item", "field example property language"),
    *_list_keywords("item", "def const enum table require fixture override package extends import", 2),
    # In expressions
    *_list_keywords("expression", "let if then else assert fn"),
    *_list_keywords("expression", "match in is present absent some for all", 2),
    *_list_keywords("constant", "true false none"),
    *_list_keywords("literal", "date qty"),
    *_list_keywords("type", "Bool Int Text Date Dec Qty Opt List Map Record"),
    *_list_keywords("audience", "public interest authority"),
    # Behind the expression of an item
    *_list_keywords("clause", "missing when force from to on severity layer cite about", 2),
    *_list_keywords("clause", "group order unit help label at", 2),
    # In tests
    *_list_keywords("test", "given cases seed product issued fact any expect expectError forall implies"),
    *_list_keywords("test", "with without because expectFinding expectNoFinding verdict args", 2),
)
KEYWORDS: Final[Mapping[str, Keyword]] = {keyword.word: keyword for keyword in _ALL}


FUNCTION_WORDS: Final[Mapping[str, str]] = {
    "getFact": "The fact of this type and key, or `none`.",
    "getFactsByPrefix": "All facts of this type whose key starts with the prefix, by key.",
    "recordGet": "A member of a fact record or record, as an option.",
    "mapGet": "The value of a map under a key, as an option.",
    "some": "An option that has this value.",
    "isSome": "Whether an option has a value.",
    "unwrapOr": "The value of an option, or the other value if there is none.",
    "requireSome": "The value of an option; without one the compile ends with this code and message.",
    "toDec": "The number with so many decimals, rounded half to even where that takes some away.",
    "toQty": "A quantity of this unit.",
    "convert": "The quantity in another unit of the same dimension.",
    "sumQty": "The sum of a list of quantities in this unit.",
    "sumDec": "The sum of a list of numbers with so many decimals.",
    "amount": "The number of a quantity, as `Dec(18)`.",
    "map": "What the function gives for each element, in order.",
    "filter": "The elements for which the function is true, in order.",
    "fold": "Goes through a list with a value that the function makes anew at each element.",
    "count": "How many elements a list has.",
    "concat": "The texts, one after another.",
    "emitCompliance": "Adds a finding to the passport; true unless the status is FAIL.",
    "productSku": "The article number of the product.",
    "productName": "The name of the product.",
    "issuedOn": "The day of issue.",
    "text": "A value as a text.",
    "startsWith": "Whether a text begins with another.",
    "endsWith": "Whether a text ends with another.",
    "contains": "Whether a text has another in it.",
    "split": "The parts of a text between separators.",
    "trim": "The text without blanks at both ends.",
    "length": "How many characters a text has.",
    "daysBetween": "How many days from the first day to the second; negative if the second is earlier.",
    "addDays": "The day so many days later.",
    "addMonths": "The same day so many months later, or the last one of that month.",
    "addYears": "The same day so many years later, or the last one of that month.",
    "year": "The year of a day.",
    "month": "The month of a day, 1 to 12.",
    "day": "The day of the month.",
    "laterOf": "The later of two days; if one is absent, the result is absent.",
    "latestOf": "The same as `laterOf`.",
    "earlierOf": "The earlier of two days; if one is absent, the result is absent.",
    "min": "The least of two values, or of a list.",
    "max": "The greatest of two values, or of a list.",
    "abs": "The number without its sign.",
    "round": "The number rounded half to even, to so many decimals.",
    "sum": "The sum of a list.",
    "first": "The first element of a list, as an option.",
    "last": "The last element of a list, as an option.",
    "distinct": "The elements of a list, each once, in the order of their first place.",
    "present": "What is there in a list of options, in order.",
    "isEmpty": "Whether a list has no element.",
    "any": "Whether the function is true for an element.",
    "all": "Whether the function is true for every element.",
    "sortBy": "The elements in the order of what the function gives.",
    "latestBy": "The element for which the function gives the greatest value, as an option.",
    "groupBy": "The elements in groups, each with the key that the function gives for them.",
}
