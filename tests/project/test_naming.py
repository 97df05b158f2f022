"""Names are plain: functions begin with a verb, classes are nouns that mean one thing, rooms are small.

The words that count as verbs and as participles are in this file. A new verb of the field is one more word in `VERBS`.
"""

import ast
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("src", "packages/service-jobs/src", "packages/bpc-client/src")
GENERATED = {
    "packages/bpc-client/src/bpc_client/models.py",
    "packages/bpc-client/src/bpc_client/operations.py",
    "packages/bpc-client/src/bpc_client/sync_operations.py",
}
TESTS = ("tests", "packages/service-jobs/tests", "packages/bpc-client/tests")

MIN_MEAN_LINES = 170
MAX_LINES = 400
MAX_FILES_IN_FOLDER = 25
MAX_PARTICIPLES = 0.02
MIN_VERBS = 0.60
MAX_PARTICIPLE_VARIABLES = 0.007

VERBS = frozenset(
    """
    abandon accept acquire activate add advance allow analyse announce append apply archive arrange ask assemble
    assert assign attach await begin bind break build call cancel capture carry change charge check choose claim
    clean clear close collect combine compare compile complete compute configure confirm connect consume convert
    copy count cover create cut deactivate decide declare decode decrypt define delete deliver demand deny dequeue
    derive describe detect determine discard dispatch distribute divide download draw drop dump emit enable encode
    encrypt end enqueue ensure enter escape estimate evaluate exchange exclude execute exit expand expect explain
    export extend extract fail fan feed fetch fill filter find finish fit flatten flush fold follow forget format
    freeze gather generate get give go grant grow guard guess handle has hash have hide hold identify ignore import
    include infer inform ingest insert inspect install intern interrupt invoke is issue iterate join judge keep kill
    lay lead leave let lift limit link list listen load locate lock log look lower make map mark match may measure
    merge migrate mix mount move must narrow need normalise notify observe offer omit open pack pad parse pass paste
    pause pay pick pin place play poll pop post prepare prettify preview print probe proceed produce promise prove
    provide publish pull pump push put quote raise rank reactivate read reap rebuild receive recognise record recover
    recycle redeliver redirect redrive reduce refer reformat refresh refuse register reject release reload remember
    remove rename render renew reopen repair repeat replace replay report request require reraise reserve reset resolve
    respond restart restore restrict resume retire retract retry return reveal revoke ring rotate round run save say
    scan schedule seal search see seed select send separate serialise serve set settle shift show shrink shut sign
    skip sleep sort spawn split spread start stop store strip submit substitute subtract sum summarise supervise
    suppress swap switch take tell terminate throw toggle touch trace track transfer transform translate traverse
    trim try unbind unblind unlock unpack unquote unschedule unwrap update upgrade upload use validate verify visit
    vouch wait wake walk warn watch weigh widen wrap write yield
    """.split()  # noqa: SIM905
)
# A pure conversion is named for what it gives: `to_hex`, `from_row`, `as_json`.
CONVERSIONS = frozenset({"as", "from", "to"})
IRREGULAR_PARTICIPLES = frozenset(
    """
    begun bound broken brought built cast caught chosen cut done drawn driven fallen felt found frozen given gone grown
    had heard held hidden kept known laid left lent let lost made meant met paid proven put said sealed seen sent shown
    spent split spoken stood stolen sworn taken taught thought thrown told torn understood woken won worn written wrong
    """.split()  # noqa: SIM905
) - {"bound", "cut", "let", "put", "split", "cast", "wrong", "left"}
NOT_PARTICIPLES = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed", "red"})
VAGUE_VARIABLES = frozenset({"found", "made", "given"})
# Participles that every reader knows as names: what a loop has met, what a test or check compares with, how far one is.
USUAL_PARTICIPLES = frozenset({"seen", "expected", "done"})
NAMING = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.ImportFrom,
    ast.Name,
    ast.arg,
    ast.ExceptHandler,
    ast.MatchAs,
    ast.MatchStar,
)


# What the API shows as a Job is a Job of the engine.
SHARED_CLASS_NAMES = {"Job"}


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or class, and where it is."""

    name: str
    path: Path
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def list_modules(*roots: str) -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *roots]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = sorted({Path(path) for path in tracked if path.endswith(".py")})
    return [path for path in paths if (ROOT / path).is_file() and str(path) not in GENERATED]


@cache
def list_nodes(path: Path) -> list[ast.AST]:
    """The parts of a module that name something. To parse and walk everything takes seconds: once is enough."""
    return [node for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, NAMING)]


def list_functions(*roots: str) -> list[Definition]:
    return [
        Definition(node.name, path, node)
        for path in list_modules(*roots)
        for node in list_nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")
    ]


def list_public_classes() -> Iterator[Definition]:
    for path in list_modules(*SOURCES):
        for node in list_nodes(path):
            if isinstance(node, ast.ClassDef) and not node.col_offset and not node.name.startswith("_"):
                yield Definition(node.name, path, node)


def get_first_word(name: str) -> str:
    return name.strip("_").split("_")[0]


def is_participle(word: str) -> bool:
    return word in IRREGULAR_PARTICIPLES or (word.endswith("ed") and word not in NOT_PARTICIPLES)


def is_named_by_participle(name: str) -> bool:
    words = name.strip("_").split("_")
    return is_participle(words[0]) or (words[0] not in VERBS and is_participle(words[-1]))


def get_layer(path: Path) -> str:
    """Return the top folder of a module: `core`, `storage`, …; a package beside bpc is a layer of its own."""
    parts = path.parts
    return parts[2] if parts[0] == "src" else parts[3]


def list_variables(path: Path) -> Iterator[tuple[str, int]]:
    """Yield every name that a module binds: variables, parameters, what `except … as` and `case … as` bind."""
    for part in list_nodes(path):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, part.lineno
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, part.lineno
            case _:
                pass


def test_hardly_any_function_is_named_by_a_participle() -> None:
    functions = list_functions(*SOURCES)

    participles = [function for function in functions if is_named_by_participle(function.name)]

    examples = Counter(function.name for function in participles).most_common(20)
    assert len(participles) / len(functions) <= MAX_PARTICIPLES, examples


def test_most_functions_begin_with_a_verb() -> None:
    functions = list_functions(*SOURCES)

    others = [function.name for function in functions if get_first_word(function.name) not in VERBS | CONVERSIONS]

    share = 1 - len(others) / len(functions)
    assert share >= MIN_VERBS, Counter(get_first_word(name) for name in others).most_common(20)


def test_a_public_class_name_means_one_thing() -> None:
    """Models of the client are made from those of the API, and have their names."""
    places = defaultdict(list)
    for definition in list_public_classes():
        if get_layer(definition.path) != "bpc_client":
            places[definition.name].append(str(definition.path))

    assert {name for name, paths in places.items() if len(paths) > 1} <= SHARED_CLASS_NAMES, places


def test_no_source_module_is_named_like_a_test() -> None:
    assert [
        str(path)
        for path in list_modules(*SOURCES)
        if path.stem == "tests" or path.stem.startswith("test_") or path.stem.endswith("_test")
    ] == []


def test_dataclass_keeps_its_name() -> None:
    aliases = [
        f"{path}:{node.lineno}"
        for path in list_modules(*SOURCES, *TESTS, "tools", "bench")
        for node in list_nodes(path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == "dataclass"
        and alias.asname
        # The one that is something else at run time, and says so.
        and path.name != "tree_nodes.py"
    ]

    assert aliases == []


def test_a_variable_says_what_it_holds() -> None:
    vague = [
        f"{path}:{line} {name}"
        for path in list_modules(*SOURCES, *TESTS, "tools", "bench")
        for name, line in list_variables(path)
        if name in VAGUE_VARIABLES
    ]

    assert vague == []


def test_hardly_any_variable_is_a_bare_participle() -> None:
    """`stored` may be a row, bytes or a flag: `stored_row` says which."""
    variables = [(name, path, line) for path in list_modules(*SOURCES) for name, line in list_variables(path)]

    participles = [
        f"{path}:{line} {name}"
        for name, path, line in variables
        if "_" not in name and is_participle(name) and name not in USUAL_PARTICIPLES
    ]

    assert len(participles) / len(variables) <= MAX_PARTICIPLE_VARIABLES, participles


def test_the_rooms_are_few_and_small() -> None:
    modules = list_modules(*SOURCES, *TESTS)
    folders = Counter(path.parent for path in modules)

    lines = {path: len((ROOT / path).read_text().splitlines()) for path in modules}

    source_lines = [lines[path] for path in list_modules(*SOURCES)]
    assert sum(source_lines) / len(source_lines) >= MIN_MEAN_LINES
    assert {str(path): count for path, count in lines.items() if count > MAX_LINES} == {}
    assert {str(folder): count for folder, count in folders.items() if count > MAX_FILES_IN_FOLDER} == {}


def test_the_words_are_told_apart() -> None:
    names = ["found", "_checked_type", "results_shown", "find_field", "seed_tenant", "need_place", "read_closed"]

    assert [is_named_by_participle(name) for name in names] == [True, True, True, False, False, False, False]
