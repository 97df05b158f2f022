"""Count lines, modules and names of revisions: `python -m tools.code_figures REVISION …` prints a table.

A column for each revision, and one for the working tree. What counts as a verb or a participle is in
`tests/project/test_naming.py`. Generated modules do not count.
"""

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from tests.project.test_naming import (
    CONVERSIONS,
    ROOT,
    USUAL_PARTICIPLES,
    VAGUE_VARIABLES,
    VERBS,
    get_first_word,
    is_named_by_participle,
    is_participle,
)

NOW: Final = "now"
GENERATED: Final = ("client/models.py", "client/operations.py", "client/sync_operations.py")
LONG: Final = 400
Sources = Mapping[PurePosixPath, str]


def main(revisions: Sequence[str]) -> None:
    columns = [compute_figures(read_sources(revision)) for revision in (*revisions, NOW)]
    print(f"| | {' | '.join((*revisions, NOW))} |\n|---|{'---|' * len(columns)}")
    for name in columns[0]:
        print(f"| {name} | {' | '.join(column[name] for column in columns)} |")


def read_sources(revision: str) -> Sources:
    """The Python files of a revision, or of the working tree, without generated ones."""
    if revision == NOW:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src", "packages", "tests"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        texts = {name: (ROOT / name).read_text() for name in names if name.endswith(".py") and (ROOT / name).is_file()}
    else:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            members = [member for member in tar if member.isfile() and member.name.endswith(".py")]
            texts = {member.name: _read_member(tar, member) for member in members}
    return {PurePosixPath(name): text for name, text in texts.items() if not name.endswith(GENERATED)}


def _read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    stream = tar.extractfile(member)
    return "" if stream is None else stream.read().decode()


def compute_figures(sources: Sources) -> dict[str, str]:
    """What the table says of one revision."""
    modules = {path: text for path, text in sources.items() if _is_source(path)}
    tests = {path: text for path, text in sources.items() if "tests" in path.parts}
    nodes = [node for text in modules.values() for node in ast.walk(ast.parse(text))]
    functions = [
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")
    ]
    variables = list(_list_variables(nodes))
    bare = [name for name in variables if "_" not in name and is_participle(name) and name not in USUAL_PARTICIPLES]
    classes = Counter(
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef) and not node.col_offset and not node.name.startswith("_")
    )
    sizes = {path: len(text.splitlines()) for path, text in modules.items()}
    test_sizes = {path: len(text.splitlines()) for path, text in tests.items()}
    verbs = [name for name in functions if get_first_word(name) in VERBS | CONVERSIONS]
    return {
        "lines of source": f"{sum(sizes.values()):,}",
        "modules": f"{len(sizes):,}",
        "lines of a module, on average": f"{sum(sizes.values()) / len(sizes):.0f}",
        f"modules above {LONG} lines": str(sum(size > LONG for size in sizes.values())),
        "modules that one other module imports": str(_count_single_imports(modules)),
        "files in the fullest folder": str(max(Counter(path.parent for path in modules).values())),
        "functions": f"{len(functions):,}",
        "functions named by a participle": _format_share(sum(map(is_named_by_participle, functions)), len(functions)),
        "functions that begin with a verb": _format_share(len(verbs), len(functions)),
        "variables that are a bare participle": _format_share(len(bare), len(variables)),
        "variables `found`, `made`, `given`": str(sum(name in VAGUE_VARIABLES for name in variables)),
        "public class names that mean several things": str(sum(count > 1 for count in classes.values())),
        "lines of tests": f"{sum(test_sizes.values()):,}",
        f"test files above {LONG} lines": str(sum(size > LONG for size in test_sizes.values())),
    }


def _is_source(path: PurePosixPath) -> bool:
    return path.parts[0] == "src" or (path.parts[0] == "packages" and path.parts[2] == "src")


def _list_variables(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case _:
                pass


def _count_single_imports(modules: Sources) -> int:
    names = {_name_module(path) for path in modules if path.name != "__init__.py"}
    importers: Counter[str] = Counter()
    for path, text in modules.items():
        imports = {name for node in ast.walk(ast.parse(text)) for name in _list_imports(node)}
        importers.update((imports & names) - {_name_module(path)})
    return sum(count == 1 for count in importers.values())


def _list_imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _name_module(path: PurePosixPath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :])


def _format_share(count: int, total: int) -> str:
    return f"{count:,} ({100 * count / total:.1f} %)"


if __name__ == "__main__":
    main(sys.argv[1:])
