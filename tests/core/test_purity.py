"""The core computes the same bytes everywhere: its source holds nothing that differs between machines.

What cannot be seen in the source (a set iterated into output, say) is left to the other tests.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "src" / "bpc" / "core"
FILES = sorted(CORE.rglob("*.py"))

# Clocks, randomness, the outside world, and number types that round.
MODULES = {
    *(
        "asyncio",
        "ctypes",
        "decimal",
        "fractions",
        "io",
        "locale",
        "multiprocessing",
        "numbers",
        "os",
        "pathlib",
    ),
    *(
        "platform",
        "random",
        "secrets",
        "shutil",
        "socket",
        "sqlite3",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
    ),
    *("time", "unicodedata", "urllib"),
}
# Answered from Unicode tables, the locale or the build of a library, which are not the same everywhere.
METHODS = {
    *("capitalize", "casefold", "isalnum", "isalpha", "isdecimal", "isdigit", "isidentifier", "islower"),
    *("isnumeric", "isprintable", "isspace", "istitle", "isupper", "lower", "swapcase", "title", "upper"),
    *("splitlines", "strftime", "compress", "compressobj"),
}
CALLS = {"complex", "eval", "exec", "float", "hash", "input", "open", "print", "round"}
# The one place that runs what it generated itself, with no built-ins and no text of a user's in it.
RUNS_GENERATED_CODE = "machine.py"


def find_impurities(source: str) -> Iterator[tuple[int, str]]:
    """Line and reason of everything in `source` that does not belong in the core."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                yield node.lineno, "`/` makes a float"
            case ast.Constant(value=float() | complex()):
                yield node.lineno, "a float literal"
            case ast.Import(names=names):
                yield from ((node.lineno, f"imports {n.name}") for n in names if n.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield node.lineno, f"imports {module}"
            case ast.Attribute(attr=name) if name in METHODS:
                yield node.lineno, f"`.{name}` differs between machines"
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield node.lineno, f"calls `{name}`"
            case ast.Assert():
                yield node.lineno, "`assert` is dropped by `python -O`"
            case _:
                pass


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(CORE).as_posix())
def test_a_core_file_is_pure(file: Path) -> None:
    reasons = [reason for _, reason in find_impurities(file.read_bytes().decode())]

    assert reasons == (["calls `exec`"] if file.name == RUNS_GENERATED_CODE else [])


@pytest.mark.parametrize(
    "line",
    [
        "a = b / c",
        "a /= b",
        "a = 1.0",
        "a = 1e3",
        "a = 1j",
        "import os.path",
        "import re, time",
        "from decimal import Decimal",
        "a.lower()",
        "key = str.casefold",
        "a.strftime('%Y')",
        "float(a)",
        "assert a",
    ],
)
def test_the_check_detects(line: str) -> None:
    assert [at for at, _ in find_impurities(f"'''1.5 / 2 in a text is fine'''\n{line}\n")] == [2]


def test_the_check_looks_at_the_whole_core() -> None:
    assert {"canonical_json.py", "hashes.py", "ids.py"} <= {file.name for file in FILES}
