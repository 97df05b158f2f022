"""Linking: files become one text byte for byte, and every place in it is a place in a file."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.errors import Invalid
from bpc.core.language.linking import (
    LinkedSource,
    PackageFiles,
    link_package,
    recognise_files,
)
from bpc.core.language.manifest import Manifest, PackageReference, read_manifest
from bpc.core.language.package import RulesRefused, read_package, read_program
from bpc.core.language.source import Source, Span, diagnostic_to_json, render_diagnostic
from bpc.core.language.testing.run import run_tests

EU = Manifest("eu-battery", "2027.1", None)
ACME = Manifest("acme", "3", PackageReference("eu-battery", "2027.1", "../eu-battery"))
GENERAL = b"language 2;\nfield battery.name @public: Text = productName(); -- \xc3\xa4\n"
DUTIES = b'language 2;\nconst FROM = date("2027-02-18");\nfield duty: Bool = issuedOn() >= FROM;\n'
DUTY_TESTS = b"""\
cases days(day, due): { issued(day); } => expect(duty, == due);
{ "2027-02-17", false; "2027-02-18", true; };
"""


def link(files: dict[str, bytes], manifest: Manifest = EU) -> LinkedSource:
    linked = recognise_files(Source("rules.bpc", link_package([PackageFiles(manifest, files)]).rules.decode()))
    assert isinstance(linked, LinkedSource)
    return linked


def test_each_file_stands_below_a_line_that_names_it() -> None:
    texts = link_package([PackageFiles(EU, {"general.bpc": GENERAL, "tests/duties.bpc": DUTY_TESTS})])

    header = f'-- file "eu-battery" "2027.1" "general.bpc" sha256:{sha256(GENERAL).hexdigest()} bytes:{len(GENERAL)}\n'
    assert texts.rules == b"language 2;\n" + header.encode() + GENERAL
    assert texts.tests.startswith(b'language 2;\n-- file "eu-battery" "2027.1" "tests/duties.bpc" sha256:')
    assert texts.tests.endswith(DUTY_TESTS)


def test_files_see_each_other_and_their_tests_run() -> None:
    files = {"duties.bpc": DUTIES, "general.bpc": GENERAL, "tests/duties.bpc": DUTY_TESTS}
    texts = link_package([PackageFiles(EU, files)])

    program = read_program(texts.rules, texts.tests)

    assert [field.path for field in program.fields] == ["battery.name", "duty"]
    report = run_tests(program, seed=0)
    assert (report.cases, report.failures) == (2, ())


def test_the_order_of_the_files_is_that_of_their_paths() -> None:
    files = {"b.bpc": b"-- b\n", "a/z.bpc": b"-- z\n", "a.bpc": b"-- a\n"}

    assert [file.path for file in link(files).files] == ["a.bpc", "a/z.bpc", "b.bpc"]
    assert link(files).text == link(dict(reversed(files.items()))).text


paths = st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3})?\.bpc", fullmatch=True)


@given(st.dictionaries(paths, st.text(max_size=30), min_size=1))
def test_every_file_comes_back_as_it_was(texts: dict[str, str]) -> None:
    files = {path: text.encode("utf-8", "ignore") for path, text in texts.items() if not path.startswith("tests/")}
    if not files:
        return

    linked = link(files)

    assert {file.path: file.source.text.encode() for file in linked.files} == {
        path: data if not data or data.endswith(b"\n") else data + b"\n" for path, data in files.items()
    }
    for file in linked.files:
        for offset in range(len(file.source.text)):
            assert linked.resolve(Span(file.start + offset, file.start + offset)) == (file.source, Span(offset, offset))


def test_a_comment_that_looks_like_a_header_is_a_comment() -> None:
    imitation = f'-- file "other" "1" "x.bpc" sha256:{"0" * 64} bytes:3\n'.encode()

    assert [file.path for file in link({"a.bpc": imitation * 2, "b.bpc": GENERAL}).files] == ["a.bpc", "b.bpc"]


def test_a_text_whose_headers_do_not_fit_is_an_ordinary_text() -> None:
    text = link({"a.bpc": GENERAL}).text

    assert isinstance(recognise_files(Source("rules.bpc", text)), LinkedSource)
    changed = (
        f"{text}x",
        text.replace("bytes:", "bytes:9"),
        text.removeprefix("language 2;\n"),
        text.replace("N", "M"),
    )
    for other in changed:
        assert type(recognise_files(Source("rules.bpc", other))) is Source


def test_a_mistake_is_shown_in_its_file_and_the_other_place_in_its_own() -> None:
    files = {"a.bpc": b"field x: Int = 1;\n", "b.bpc": b"\n\nfield x: Int = 2;\n"}
    texts = link_package([PackageFiles(EU, files)])

    (located,) = read_package(texts.rules, name="folder").diagnostics

    assert render_diagnostic(*located) == (
        "error[duplicate-field]: the field `x` is declared twice\n"
        "  at folder/b.bpc:3:7\n"
        "  3 | field x: Int = 2;\n"
        "    |       ^\n"
        "  in folder/a.bpc\n"
        "  1 | field x: Int = 1;\n"
        "    |       - it is first declared here\n"
        'help: to replace it, write `override "reason"` before `field x`\n'
    )
    document = diagnostic_to_json(*located)
    assert (document["file"], document["line"], document["column"]) == ("folder/b.bpc", 3, 7)
    assert document["notes"] == [{"line": 3, "column": 7, "message": "it is first declared here: folder/a.bpc:1:7"}]


@pytest.mark.parametrize(
    ("rules", "item"),
    [
        (b"const x: Int = 1;\nfield a: Int = x;\n", "const x"),
        (b'def x = Battery for "k";\nfield a: Bool = x is present;\n', "def x"),
        (b"fn x(y: Int): Int = y;\nfield a: Int = x(1);\n", "fn x"),
    ],
)
def test_who_defines_a_name_of_another_file_again_may_want_to_override_it(rules: bytes, item: str) -> None:
    again = rules.split(b"\n")[0]
    texts = link_package([PackageFiles(EU, {"a.bpc": rules, "b.bpc": again})])

    errors = [located.diagnostic for located in read_package(texts.rules).diagnostics if located.diagnostic.is_error]

    assert [error.help for error in errors] == [f'to replace it, write `override "reason"` before `{item}`']


def test_a_refusal_names_package_and_path_where_there_is_no_folder() -> None:
    texts = link_package([PackageFiles(EU, {"a.bpc": b"\nfield x: Int = y;\n"})])

    with pytest.raises(RulesRefused, match=r"^eu-battery/a.bpc:2:16: "):
        read_program(texts.rules)


def test_a_file_of_another_level_is_refused() -> None:
    texts = link_package([PackageFiles(EU, {"a.bpc": b"language 1;\nfield x: Int = 1;\n"})])

    (located,) = read_package(texts.rules).diagnostics

    assert (located.diagnostic.kind, located.diagnostic.message) == (
        "unknown-language",
        "the package is of level 2, not 1",
    )


def test_what_is_extended_stands_first_and_is_seen() -> None:
    own = PackageFiles(ACME, {"own.bpc": b'field acme.duty: Bool = field("duty") || issuedOn() < FROM;\n'})

    texts = link_package([PackageFiles(EU, {"duties.bpc": DUTIES, "tests/t.bpc": DUTY_TESTS}), own])

    linked = recognise_files(Source("acme", texts.rules.decode()))
    assert isinstance(linked, LinkedSource)
    assert [file.source.name for file in linked.files] == ["eu-battery 2027.1/duties.bpc", "acme/own.bpc"]
    assert run_tests(read_program(texts.rules, texts.tests), seed=0).failures == ()


def test_another_release_than_the_stated_one_is_refused() -> None:
    packages = [PackageFiles(EU._replace(release="2027.2"), {}), PackageFiles(ACME, {})]

    with pytest.raises(Invalid, match=r"extends `eu-battery` 2027\.1, and the folder has `eu-battery` 2027\.2"):
        link_package(packages)


def test_a_package_cannot_extend_itself() -> None:
    with pytest.raises(Invalid, match="extends itself"):
        link_package([PackageFiles(EU, {}), PackageFiles(EU, {})])


@pytest.mark.parametrize("path", ["../a.bpc", "/a.bpc", "a b.bpc", "a.txt", "ä.bpc", "a//b.bpc", ".hidden.bpc"])
def test_a_path_that_a_header_cannot_say_is_refused(path: str) -> None:
    with pytest.raises(Invalid, match="cannot be linked"):
        PackageFiles(EU, {path: b""})


@pytest.mark.parametrize(
    ("text", "manifest"),
    [
        ('package "eu-battery" "2027.1";', EU),
        ('language 2;\n-- a comment; package "x"\npackage   "eu-battery"\n"2027.1" ;', EU),
        ('package "acme" "3"; extends "eu-battery" "2027.1" at "../eu-battery";', ACME),
        ('extends "eu-battery" "2027.1" at "../eu-battery"; package "acme" "3";', ACME),
    ],
)
def test_a_manifest_states_name_release_and_parent(text: str, manifest: Manifest) -> None:
    assert read_manifest("package.bpc", text.encode()) == manifest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no package"),
        ('package "a";', "is not a manifest: `package"),
        ('package "a" "1"; package "b" "1";', "states something twice"),
        ('package "a b" "1";', "`a b` is not a name"),
        ('package "a" "1"; field x: Int = 1;', "is not a manifest: `field x"),
        ('extends "a" "1" at "../a";', "names no package"),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(text: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        read_manifest("package.bpc", text.encode())


def test_a_manifest_is_utf8() -> None:
    with pytest.raises(Invalid, match="not UTF-8"):
        read_manifest("package.bpc", b"\xff")
