"""Every kind of diagnostic: its slug, the code the API answers with, and what it is called.

One table. Each kind has a page in docs/rules/diagnostics/ with an example that provokes it; a test keeps table,
pages and examples together.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple


class Kind(NamedTuple):
    code: str
    title: str
    severity: Literal["error", "warning"] = "error"


_PARSE: Final = "RULE_PARSE_ERROR"
_TYPE: Final = "RULE_TYPE_ERROR"
_UNIT: Final = "UNIT_MISMATCH"

KINDS: Final[Mapping[str, Kind]] = {
    # The bytes and the characters
    "source-too-large": Kind(_PARSE, "the file is too large"),
    "byte-order-mark": Kind(_PARSE, "the file starts with a byte order mark"),
    "not-utf8": Kind(_PARSE, "the file is not UTF-8"),
    "unexpected-character": Kind(_PARSE, "a character that means nothing here"),
    "unclosed-text": Kind(_PARSE, "a text without its closing quote"),
    "bad-escape": Kind(_PARSE, "an escape that no text knows"),
    "bad-number": Kind(_PARSE, "a number that is not written as one"),
    "name-too-long": Kind(_PARSE, "a name of more than 64 characters"),
    # The grammar
    "unexpected-token": Kind(_PARSE, "something else was expected here"),
    "too-deep": Kind(_PARSE, "nested too deeply"),
    "chain-too-long": Kind(_PARSE, "too many operators or branches in one chain"),
    "chained-comparison": Kind(_PARSE, "comparisons do not chain"),
    "if-needs-parentheses": Kind(_PARSE, "an `if`, `let` or `assert` as operand needs parentheses"),
    "condition-needs-parentheses": Kind(_PARSE, "the whole condition belongs in parentheses"),
    "misplaced-lambda": Kind(_PARSE, "a function stands where only a value can"),
    "reserved-name": Kind(_PARSE, "a reserved word as variable"),
    "unknown-type": Kind(_PARSE, "there is no such type"),
    "unknown-audience": Kind(_PARSE, "there is no such audience"),
    "repeated-audience": Kind(_PARSE, "an audience named twice"),
    "empty-record": Kind(_PARSE, "a record without members"),
    "fraction-in-json": Kind(_PARSE, "a fraction in a fixture's JSON"),
    "path-too-long": Kind(_PARSE, "a path of more than 16 segments"),
    "rule-in-tests": Kind(_PARSE, "a rule in a tests file"),
    "too-many-errors": Kind(_PARSE, "so many mistakes that reading stopped"),
    # Names
    "duplicate-field": Kind(_TYPE, "a field declared twice"),
    "prefix-path": Kind(_TYPE, "a field's path is the beginning of another's"),
    "cycle": Kind("RULE_CYCLE_DETECTED", "fields that need each other"),
    "unknown-field": Kind(_TYPE, "there is no such field"),
    "unknown-fact": Kind(_TYPE, "there is no such fact type"),
    "unknown-member": Kind(_TYPE, "there is no such member"),
    "unknown-function": Kind(_TYPE, "there is no such function"),
    "unknown-variable": Kind(_TYPE, "there is no such variable"),
    "shadowed-name": Kind(_TYPE, "a name that is taken here"),
    "duplicate-member": Kind(_TYPE, "a member named twice"),
    "duplicate-test": Kind(_TYPE, "a test's name used twice"),
    # Types
    "wrong-type": Kind(_TYPE, "a value of another type is needed"),
    "operands-disagree": Kind(_TYPE, "two operands that do not go together"),
    "not-comparable": Kind(_TYPE, "values that cannot be compared so"),
    "int-for-dec": Kind(_TYPE, "an Int where a Dec is needed"),
    "scale-too-large": Kind(_TYPE, "more decimals than a Dec can have"),
    "literal-does-not-fit": Kind(_TYPE, "a number with more decimals than there is room for"),
    "number-too-large": Kind(_TYPE, "a number that is too large"),
    "type-not-known": Kind(_TYPE, "a `none` or `[]` whose type nothing tells"),
    "type-too-large": Kind(_TYPE, "a type with too many parts"),
    "nested-option": Kind(_TYPE, "an option of an option"),
    "fact-record-misplaced": Kind(_TYPE, "a fact record where only values can stand"),
    "wrong-argument-count": Kind(_TYPE, "too many or too few arguments"),
    "wrong-lambda": Kind(_TYPE, "a function argument that does not fit"),
    "literal-needed": Kind(_TYPE, "an argument that must be written out"),
    "bad-date": Kind(_TYPE, "not a day of the calendar"),
    "bad-status": Kind(_TYPE, "not a compliance status"),
    "emit-in-lambda": Kind(_TYPE, "a compliance entry inside a function"),
    "emit-outside-rule": Kind(_TYPE, "a compliance entry outside of the rules"),
    # Units
    "unit-mismatch": Kind(_UNIT, "quantities in different units"),
    "unknown-unit": Kind(_UNIT, "there is no such unit"),
    "no-conversion": Kind(_UNIT, "units that do not convert into each other"),
    # Tests
    "nothing-expected": Kind(_TYPE, "a test that expects nothing"),
    "bad-fixture": Kind(_TYPE, "a fixture that no snapshot could hold"),
    "bad-cases": Kind(_TYPE, "a number of cases that cannot be run"),
    # Doubts
    "unused-let": Kind(_TYPE, "a `let` that nothing uses", "warning"),
    "unread-member": Kind(_TYPE, "a fixture's member that no rule can read", "warning"),
    "publishes-hidden": Kind(_TYPE, "a visible field computed from hidden ones", "warning"),
}
