"""What is open in an editor: packages of several files, edits one after another, and files that may not be read."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest
from lsprotocol import types

import bpc
from bpc.cli.language_server import answers
from bpc.cli.language_server.session import EditorSession, to_path
from bpc.core.language.package import read_package
from bpc.core.language.source import diagnostic_to_json
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

SHIPPED = Path(bpc.__file__).parent / "rules" / "eu-battery"
PIECES = (
    *("field", "def x = 1;\n", "study.", ";", "(", ")", "{", "}", '"', "--", "\n", " ", "=", "1", "🔋", "\r", "\u2028"),
    *('require R1 "r": true;', "field new.one: Int = 1;\n", 'override "why" ', "language 2;", "fn(x) => x", "\ud800"),
)


def open_session(folder: Path) -> EditorSession:
    session = EditorSession()
    session.files.roots = [folder.resolve()]
    return session


def write_package(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.bpc"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def show(session: EditorSession, path: Path) -> dict[str, list[str]]:
    """The messages of every file, by name."""
    params = session.list_diagnostics(path)
    return {to_path(each.uri).name: [str(one.code) for one in each.diagnostics] for each in params}


# Packages of several files


def test_files_of_a_package_are_checked_together(tmp_path: Path) -> None:
    folder = write_package(
        tmp_path / "acme",
        package='language 2;\npackage "acme" "1";\n',
        one="language 2;\nconst LIMIT: Int = 1;\n",
        two="language 2;\nfield a: Int = LIMIT;\n",
        tests__all="language 2;\nexample e: {} => expect(a, == 1);;\n",
    )
    session = open_session(tmp_path)
    one = session.open_document((folder / "one.bpc").as_uri(), 1, (folder / "one.bpc").read_text())
    assert show(session, one) == {"one.bpc": []}

    session.open_document((folder / "one.bpc").as_uri(), 2, "language 2;\nconst LIMITS: Int = 1;\n")
    assert show(session, one) == {"one.bpc": [], "two.bpc": ["unknown-variable"]}

    session.open_document((folder / "one.bpc").as_uri(), 3, (folder / "one.bpc").read_text())
    assert show(session, one) == {"one.bpc": [], "two.bpc": []}


def test_a_package_is_checked_with_the_one_it_extends(tmp_path: Path) -> None:
    write_package(
        tmp_path / "base", package='language 2;\npackage "base" "1";\n', a="language 2;\nconst LIMIT: Int = 1;\n"
    )
    folder = write_package(
        tmp_path / "own",
        package='language 2;\npackage "own" "1";\nextends "base" "1" at "../base";\n',
        b="language 2;\nfield a: Int = LIMIT;\n",
    )
    session = open_session(tmp_path)
    uri = (folder / "b.bpc").as_uri()
    path = session.open_document(uri, 1, (folder / "b.bpc").read_text())
    assert show(session, path) == {"b.bpc": []}

    place = types.Position(1, len("field a: Int = L"))
    location = answers.find_definition(session, types.DefinitionParams(types.TextDocumentIdentifier(uri), place))
    assert location is not None
    assert (to_path(location.uri), location.range.start) == (tmp_path / "base/a.bpc", types.Position(1, 6))

    session.open_document((tmp_path / "base/a.bpc").as_uri(), 1, "language 2;\nconst LIMITED: Int = 1;\n")
    assert show(session, path)["b.bpc"] == ["unknown-variable"]


def test_a_package_that_extends_the_shipped_one_is_checked(tmp_path: Path) -> None:
    manifest = 'language 2;\npackage "own" "1";\nextends "eu-battery" "2027.1";\n'
    folder = write_package(tmp_path / "own", package=manifest)
    session = open_session(tmp_path)

    path = session.open_document((folder / "b.bpc").as_uri(), 1, "language 2;\nfield own.mass: Int = study;\n")

    assert show(session, path)["b.bpc"] == ["wrong-type"]


def test_rules_and_tests_beside_each_other_belong_together(tmp_path: Path) -> None:
    (tmp_path / "a.bpc").write_text("field a: Int = 1;\n")
    session = open_session(tmp_path)

    path = session.open_document((tmp_path / "a-tests.bpc").as_uri(), 1, "example e: {} => expect(b, == 1);;\n")

    assert show(session, path) == {"a-tests.bpc": ["unknown-field"]}


def test_a_wrong_manifest_is_said_in_the_open_document(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "own", package='language 2;\npackage "own";\n', b="language 2;\n")
    session = open_session(tmp_path)

    path = session.open_document((folder / "b.bpc").as_uri(), 1, "language 2;\n")

    [params] = session.list_diagnostics(path)
    assert "is not a manifest" in params.diagnostics[0].message


# What may be read


def test_nothing_outside_the_workspace_is_read(tmp_path: Path) -> None:
    write_package(
        tmp_path / "outside",
        package='language 2;\npackage "base" "1";\n',
        secret="language 2;\nconst SECRET: Int = 1;\n",
    )
    inside = tmp_path / "inside"
    folder = write_package(
        inside / "own", package='language 2;\npackage "own" "1";\nextends "base" "1" at "../../outside";\n', b=""
    )
    (folder / "link.bpc").symlink_to(tmp_path / "outside/secret.bpc")
    session = open_session(inside)

    path = session.open_document((folder / "b.bpc").as_uri(), 1, "language 2;\nfield a: Int = SECRET;\n")
    [params] = session.list_diagnostics(path)
    assert "is not in the folder that is open in the editor" in params.diagnostics[0].message

    manifest = 'language 2;\npackage "own" "1";\n'
    session.open_document((folder / "package.bpc").as_uri(), 1, manifest)
    assert show(session, path) == {"b.bpc": ["unknown-variable"]}

    single = session.open_document((tmp_path / "outside/a.bpc").as_uri(), 1, "language 2;\nfield a: Int = SECRET;\n")
    assert show(session, single) == {"a.bpc": ["unknown-variable"]}


def test_documents_that_are_no_files_are_known_by_the_editor_only() -> None:
    session = EditorSession()
    session.open_document("memory:/own/package.bpc", 1, 'language 2;\npackage "own" "1";\n')
    session.open_document("memory:/own/one.bpc", 1, "language 2;\nconst LIMIT: Int = 1;\n")

    path = session.open_document("memory:/own/two.bpc", 1, "language 2;\nfield a: Int = LIMIT + more;\n")

    params = list(session.list_diagnostics(path))
    assert [(each.uri, len(each.diagnostics)) for each in params] == [("memory:/own/two.bpc", 1)]


# Edits one after another


def edit(rng: Random, text: str) -> str:
    """Put something in, take something out, or both, anywhere."""
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.choice([0, 0, 0, 1, 1, 2, 5, 30, 200]))
    return text[:start] + (rng.choice(PIECES) if rng.random() < 0.7 else "") + text[end:]


@pytest.mark.slow
@pytest.mark.repeats
def test_random_edits_show_what_a_fresh_check_finds(tmp_path: Path, record_measurement: RecordMeasurement) -> None:
    files = {
        "package": 'language 2;\npackage "acme" "1";\n',
        "one": 'language 2;\nenum Kind = EV "ev" | LMT;\nconst LIMIT: Dec(6) = 2;\n'
        "def sheet = Battery for productSku();\nfn twice(x: Dec(6)): Dec(6) = x + x;\n",
        "two": "language 2;\nfield a.kind: Opt(Kind) = Kind(sheet.category);\nfield a.limit: Dec(6) = twice(LIMIT);\n"
        'require R1 "more than {LIMIT}": LIMIT > 1;\n',
        "tests__all": 'language 2;\nexample e: {} => expect(a.limit, == 4); expectFinding("R1", "PASS");;\n',
    }
    folder = write_package(tmp_path / "acme", **files)
    session, rng = open_session(tmp_path), Random(21)
    names = ["one.bpc", "two.bpc", "tests/all.bpc"]
    originals = {name: (folder / name).read_text() for name in names}
    texts, wrong = dict(originals), 0
    edits = choose_effort(test=300, shown=5_000, campaign=100_000)

    for number in range(edits):
        if rng.random() < 0.25:
            texts = dict(originals)
            for name, text in originals.items():
                session.open_document((folder / name).as_uri(), number, text)
        name = rng.choice(names)
        texts[name] = edit(rng, texts[name])
        path = session.open_document((folder / name).as_uri(), number, texts[name])
        published = list(session.list_diagnostics(path))
        package = session.check_package(path)
        assert package.reading is not None
        content = package.content.to_texts()
        fresh = read_package(content.rules, content.tests, name=content.rules_name, tests_name=content.tests_name)
        assert list(map(_describe, package.reading.package.diagnostics)) == list(map(_describe, fresh.diagnostics))
        assert sum(len(each.diagnostics) for each in published) == len(fresh.diagnostics)
        wrong += bool(fresh.diagnostics)

    record_measurement("editor-edits", edits=edits, with_mistakes=wrong, differences=0)
    assert 0.3 * edits < wrong < 0.97 * edits


def _describe(located: object) -> object:
    return diagnostic_to_json(*located)  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.repeats
def test_no_text_breaks_a_request(tmp_path: Path) -> None:
    session, rng = open_session(tmp_path), Random(5)
    text = (SHIPPED / "footprint.bpc").read_text()
    uri = (tmp_path / "a.bpc").as_uri()
    for number in range(choose_effort(test=150, shown=3_000, campaign=50_000)):
        cut = rng.randrange(len(text))
        document = text[:cut] if number % 2 else edit(rng, edit(rng, text[max(0, cut - 1500) : cut + 300]))
        path = session.open_document(uri, number, document)
        list(session.list_diagnostics(path))
        line = document[:cut].count("\n")
        place = types.Position(rng.choice([line, line, 0, 10**6]), rng.choice([0, 5, 20, 10**6]))
        for answer in ask_everything(session, uri, place):
            assert answer is not NotImplemented


def ask_everything(session: EditorSession, uri: str, place: types.Position) -> Iterator[object]:
    document = types.TextDocumentIdentifier(uri)
    yield answers.hover(session, types.HoverParams(document, place))
    yield answers.complete(session, types.CompletionParams(document, place))
    yield answers.find_definition(session, types.DefinitionParams(document, place))
    context = types.ReferenceContext(include_declaration=True)
    yield answers.find_references(session, types.ReferenceParams(context, document, place))
    yield answers.list_symbols(session, types.DocumentSymbolParams(document))
    yield answers.list_code_lenses(session, types.CodeLensParams(document))
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    yield answers.format_document(session, types.DocumentFormattingParams(document, options))
    actions = types.CodeActionParams(document, types.Range(place, place), types.CodeActionContext([]))
    yield answers.list_code_actions(session, actions)


# Speed


@pytest.mark.slow
@pytest.mark.repeats
def test_the_mistakes_of_the_shipped_package_are_shown_at_once(record_measurement: RecordMeasurement) -> None:
    session, rng = open_session(SHIPPED), Random(3)
    names = [path for path in sorted(SHIPPED.rglob("*.bpc")) if path.name != "package.bpc"]
    words = ("let x = 1; ", "study.total", "field a.b: Int = 1;\n", "-- hm\n", "(1 + 2)", '"text"')
    path = session.open_document(names[0].as_uri(), 0, names[0].read_text())
    list(session.list_diagnostics(path))
    milliseconds: list[float] = []
    gc.collect()
    gc.disable()  # as the server does while somebody types
    try:
        for _ in range(choose_effort(test=6, shown=60, campaign=300)):
            file, word = rng.choice(names), rng.choice(words)
            text = file.read_text()
            at = rng.randrange(len(text))
            for typed in [*range(len(word) + 1), *range(len(word), -1, -1)]:
                started = time.process_time()
                path = session.open_document(file.as_uri(), typed, text[:at] + word[:typed] + text[at:])
                list(session.list_diagnostics(path))
                milliseconds.append((time.process_time() - started) * 1000)
            session.close_document(file.as_uri())
            gc.collect()
    finally:
        gc.enable()
    milliseconds.sort()
    p50, p95 = (milliseconds[int(len(milliseconds) * share)] for share in (0.5, 0.95))
    record_measurement(
        "editor-diagnostics",
        edits=len(milliseconds),
        processor_milliseconds_p50=round(p50, 1),
        processor_milliseconds_p95=round(p95, 1),
        processor_milliseconds_max=round(milliseconds[-1], 1),
    )
    assert p95 <= allow_seconds(0.1) * 1000


# Packages that import others


def test_an_imported_package_is_read_and_an_edit_of_it_is_noticed(tmp_path: Path) -> None:
    library = write_package(
        tmp_path / "lib", package='language 2;\npackage "lib" "1";\n', a="language 2;\nconst LIMIT: Int = 1;\n"
    )
    own = write_package(
        tmp_path / "acme",
        package='language 2;\npackage "acme" "1";\nimport "lib" "1" at "../lib";\n',
        own="language 2;\nfield a: Int = LIMIT;\n",
    )
    session = open_session(tmp_path)
    path = session.open_document((own / "own.bpc").as_uri(), 1, (own / "own.bpc").read_text())
    assert show(session, path) == {"own.bpc": []}

    session.open_document((library / "a.bpc").as_uri(), 1, "language 2;\nconst LIMIT: Int = 1;\nfield lost: Int = 1;\n")
    assert show(session, path) == {"own.bpc": [], "a.bpc": ["bad-import"]}

    session.open_document((library / "a.bpc").as_uri(), 2, "language 2;\nconst LIMITS: Int = 1;\n")
    assert show(session, path) == {"own.bpc": ["unknown-variable"], "a.bpc": []}


def test_an_import_that_cannot_be_linked_is_shown(tmp_path: Path) -> None:
    write_package(tmp_path / "lib", package='package "lib" "1"; import "lib" "1" at ".";', a="const A: Int = 1;\n")
    own = write_package(
        tmp_path / "acme", package='package "acme" "1"; import "lib" "1" at "../lib";', own="field a: Int = A;\n"
    )
    session = open_session(tmp_path)
    path = session.open_document((own / "own.bpc").as_uri(), 1, (own / "own.bpc").read_text())

    (params,) = session.list_diagnostics(path)

    assert "`lib` imports itself: `lib` -> `lib`" in params.diagnostics[0].message
