"""What people write who know another language, or none: what it is called here."""

from typing import Final

FIXES: Final = {
    "and": "the logical and is written `&&`",
    "or": "the logical or is written `||`",
    "not": "the logical not is written `!`",
    "null": "the missing value is written `none`",
    "elif": "it is written `else if`",
    "elseif": "it is written `else if`",
    "between": "write two comparisons: `low <= x && x <= high`",
    "unless": "write `when` and the opposite",
    "percent": "leave it out: a percentage is a number, so 16 % is `16`",
    "about": "`about` stands at the end of a field, in a file that begins with `language 2;`",
}
# The same for a name that was parsed as a variable before the mistake was noticed.
FIXES_BY_PREVIOUS: Final = {
    "not": "the logical not is written `!`",
    "return": "there is no `return`: the last expression is the value",
}
FIXES_AFTER_VALUE: Final = {
    "=": "`==` compares",
    ".": 'a field is read with `field("path")`, a member with `recordGet(record, "name")`',
    "|": "`||` is the logical or",
    ")": "there is no matching `(`",
    "]": "there is no matching `[`",
    "}": "there is no matching `{`",
}
FIXES_OF_CHARACTERS: Final = {
    "&": "`&&` is the logical and",
    "|": "`||` is the logical or",
    "#": "`--` starts a comment",
    "%": "leave it out: a percentage is a number, so 16 % is `16`",
    "\N{GREATER-THAN OR EQUAL TO}": "at least is written `>=`",
    "\N{LESS-THAN OR EQUAL TO}": "at most is written `<=`",
    "\N{NOT EQUAL TO}": "not equal is written `!=`",
    "\N{MULTIPLICATION SIGN}": "times is written `*`",
    "\N{DIVISION SIGN}": "divided by is written `/`",
    "\N{MINUS SIGN}": "minus is written `-`",
    "\N{EN DASH}": "minus is written `-`",
}
