"""Imports: names come along, fields do not; what a package means does not depend on who imports it."""

import pytest

from bpc.core.errors import Invalid
from bpc.core.language.check_result import check_rule_sources
from bpc.core.language.linking import LinkedSource, PackageFiles, link_package, recognise_files
from bpc.core.language.manifest import Manifest, PackageReference, read_manifest
from bpc.core.language.needed_packages import MAX_IMPORTED, gather_packages
from bpc.core.language.package import CheckedPackage, PackageTexts, list_overrides, read_package
from bpc.core.language.source import Source, diagnostic_to_json, render_diagnostic
from bpc.core.language.testing.mutation_run import MutationRun
from bpc.core.language.testing.run import run_tests

LIBRARY = """\
enum Metal = COBALT "co" | LEAD "pb";
table least_share(metal: Metal): Int { COBALT: 16; LEAD: 85; };
const HEAVY_FROM: Dec(6) = 20;
def sheet = Battery for productSku() else missing("no data sheet");
fn carriers(mass: Dec(6)): Int = if mass >= HEAVY_FROM then 2 else 1;
"""
OWN = """\
field people: Int = carriers(sheet.mass_kg ?? 0);
field limit: Dec(6) = HEAVY_FROM;
field least: Opt(Int) = least_share(Metal.LEAD);
"""
TESTS = """\
cases masses(mass, count): { fact b("Battery", "battery:SKU-1") = { "mass_kg": mass }; } =>
  expect(people, == count); expect(limit, == 20); expect(least, == some(85));
{ 19.999, 1; 20, 2; };
"""


def refer(*names: str) -> tuple[PackageReference, ...]:
    return tuple(PackageReference(name, "1") for name in names)


def make_package(name: str, text: str, *imports: str, **more: str) -> PackageFiles:
    files = {"a.bpc": text.encode(), **{f"{path.replace('_', '/')}.bpc": each.encode() for path, each in more.items()}}
    return PackageFiles(Manifest(name, "1", None, refer(*imports)), files)


def check(*packages: PackageFiles) -> CheckedPackage:
    texts = link_package(packages)
    return read_package(texts.rules, texts.tests, name="acme", tests_name="acme")


def list_kinds(checked: CheckedPackage) -> list[str]:
    return [problem.diagnostic.kind for problem in checked.diagnostics]


def render(checked: CheckedPackage) -> str:
    return "".join(render_diagnostic(*problem) for problem in checked.diagnostics)


def test_names_of_every_kind_are_imported() -> None:
    checked = check(make_package("lib", LIBRARY), make_package("acme", OWN, "lib", tests_t=TESTS))

    assert checked.diagnostics == ()
    assert checked.program is not None
    report = run_tests(checked.program, seed=0)
    assert (report.cases, report.failures) == (2, ())


def test_the_text_says_who_imports_whom_and_names_each_file() -> None:
    packages = [
        make_package("b", "const B = 1;\n", tests_b="-- not linked\n"),
        make_package("a", "const A = 1 + B;\n", "b"),
        make_package("acme", "field x: Int = A + B;\n", "a", "b"),
    ]

    texts = link_package(packages)

    lines = [line.split(" sha256")[0] for line in texts.rules.decode().splitlines() if line.startswith("--")]
    assert lines == [
        '-- import "a" "1" "b" "1"',
        '-- import "acme" "1" "a" "1"',
        '-- import "acme" "1" "b" "1"',
        '-- file "b" "1" "a.bpc"',
        '-- file "a" "1" "a.bpc"',
        '-- file "acme" "1" "a.bpc"',
    ]
    assert texts.tests == b""
    linked = recognise_files(Source("acme", texts.rules.decode()))
    assert isinstance(linked, LinkedSource)
    assert linked.imports == {"a": {"b"}, "acme": {"a", "b"}}
    assert [file.source.name for file in linked.files] == ["b 1/a.bpc", "a 1/a.bpc", "acme/a.bpc"]


def test_without_its_comments_the_text_means_the_same() -> None:
    """A verifier that knows nothing of imports computes the same passport."""
    texts = link_package([make_package("lib", LIBRARY), make_package("acme", OWN, "lib", tests_t=TESTS)])
    plain = "".join(line for line in texts.rules.decode().splitlines(True) if not line.startswith("--"))

    program = read_package(plain.encode(), texts.tests).program

    assert program is not None
    assert run_tests(program, seed=0).failures == ()


@pytest.mark.parametrize("item", ["field lost: Int = 1;", 'require R1 "lost": true else "no";'])
def test_an_imported_package_has_no_fields_and_no_requirements(item: str) -> None:
    checked = check(make_package("lib", f"const A = 1;\n{item}\n"), make_package("acme", "field x: Int = A;\n", "lib"))

    assert list_kinds(checked) == ["bad-import"]
    assert "`lib` 1 is imported, and declares the" in render(checked)
    assert "  at lib 1/a.bpc:2:" in render(checked)


@pytest.mark.parametrize("item", ["const HEAVY_FROM: Dec(6) = 25;", "fn carriers(mass: Dec(6)): Int = 1;"])
def test_what_is_imported_cannot_be_overridden(item: str) -> None:
    own = make_package("acme", f'field x: Int = carriers(1);\noverride "ours" {item}\n', "lib")
    texts = link_package([make_package("lib", LIBRARY), own])

    (problem,) = read_package(texts.rules, name="acme").diagnostics

    assert problem.diagnostic.kind == "bad-override"
    assert problem.diagnostic.message.endswith("is imported from `lib` 1, and cannot be overridden")
    assert "  at acme/a.bpc:2:1\n" in render_diagnostic(*problem)
    assert "  in lib 1/a.bpc\n" in render_diagnostic(*problem)
    assert list_overrides(texts.rules) == []


def test_an_imported_package_overrides_nothing() -> None:
    library = make_package("lib", 'const A = 1;\noverride "why" const A = 2;\n')

    assert list_kinds(check(library, make_package("acme", "field x: Int = A;\n", "lib"))) == ["bad-override"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("const a = 1;", "def a = 2;"),
        ("fn f(x: Int): Int = 1;", "fn f(x: Int): Int = 2;"),
        ("table f(x: Bool): Int { true: 1; false: 2; };", "fn f(x: Bool): Int = 2;"),
        ("enum F = A | B;", "fn F(x: Text): Int = 2;"),
        ("enum E = A | B;", "enum E = C | D;"),
        ("table f(x: Bool): Int { true: 1; false: 2; };", "enum f = C | D;"),
    ],
)
def test_a_name_that_two_packages_declare_is_a_mistake_in_two_files(first: str, second: str) -> None:
    for pair in ((first, second), (second, first)):
        own = make_package("acme", f"field x: Int = 1;\n{pair[1]}\n", "lib")

        checked = check(make_package("lib", f"{pair[0]}\n"), own)

        assert list_kinds(checked) == ["duplicate-definition"]
        assert "acme/a.bpc:2:" in render(checked) + str(diagnostic_to_json(*checked.diagnostics[0])["notes"])
        assert "lib 1/a.bpc" in render(checked)
        assert "it is imported from `lib` 1: one of them needs another name" in render(checked)


def test_two_imported_packages_clash_with_both_names() -> None:
    checked = check(
        make_package("a", "const LIMIT = 1;\n"),
        make_package("b", "const LIMIT = 2;\n"),
        make_package("acme", "field x: Int = 1;\n", "a", "b"),
    )

    assert "  at b 1/a.bpc:1:7\n" in render(checked)
    assert "  in a 1/a.bpc\n" in render(checked)


def test_an_imported_function_hides_no_built_in_one() -> None:
    library = make_package("lib", "fn count(x: Int): Int = 7;\n")

    checked = check(library, make_package("acme", "field x: Int = count([1, 2]);\n", "lib"))

    assert "duplicate-definition" in list_kinds(checked)
    assert "`count` is a name of the language, and an imported package cannot declare it" in render(checked)


@pytest.mark.parametrize(
    "use", ["B", "f(1)", "t(true) ?? 0", 'if isSome(E("C")) then 1 else 2', "if E.C == E.C then 1 else 2"]
)
def test_names_of_a_package_further_away_are_not_seen(use: str) -> None:
    far = "const B = 1; fn f(x: Int): Int = x; table t(x: Bool): Int { true: 1; false: 2; }; enum E = C | D;\n"

    checked = check(
        make_package("far", far),
        make_package("near", "const N = 1 + B;\n", "far"),
        make_package("acme", f"field x: Int = N + ({use});\n", "near"),
    )

    assert set(list_kinds(checked)) == {"not-imported"}
    assert "is of `far` 1, which `acme` does not import" in render(checked)
    assert 'state it in `package.bpc` of `acme`: `import "far" "1";`' in render(checked)


@pytest.mark.parametrize(
    ("library", "own"),
    [
        ("fn f(x: Int): Int = x + OWN;", "const OWN = 1;"),
        ("fn f(x: Int): Int = g(x);", "fn g(x: Int): Int = x;"),
        ("fn f(x: Mine): Int = 1;", "enum Mine = M | O;"),
        ("fn f(x: Int): Bool = [M] == [M];", "enum Mine = M | O;"),
    ],
)
def test_an_imported_package_does_not_see_who_imports_it(library: str, own: str) -> None:
    checked = check(make_package("lib", f"{library}\n"), make_package("acme", f"{own}\nfield x: Int = 1;\n", "lib"))

    assert "not-imported" in list_kinds(checked)
    assert "`acme`, and `lib` 1, which is imported, cannot see it" in render(checked)
    assert "  at lib 1/a.bpc:1:" in render(checked)


def test_names_inside_a_function_may_be_called_like_what_it_does_not_see() -> None:
    library = "fn twice(mass: Int): Int = let part = mass; part + mass;\ndef from_inside = let mass = 3; mass;\n"
    own = "def mass = from_inside + 1;\nconst part = 10;\nenum E = inside | x;\nfield y: Int = twice(mass) + part;\n"
    tests = "example e: {} => expect(y, == 18);;\n"

    checked = check(make_package("lib", library), make_package("acme", own, "lib", tests_t=tests))

    assert checked.diagnostics == ()
    assert checked.program is not None
    assert run_tests(checked.program, seed=0).failures == ()


def test_a_member_of_an_enumeration_that_is_not_seen_is_not_ambiguous() -> None:
    library = "enum Metal = LEAD | COBALT;\nfn is_lead(metal: Metal): Bool = metal == LEAD;\n"
    own = "enum Role = LEAD | MEMBER;\nfield y: Bool = is_lead(Metal.LEAD) || [Role.LEAD] == [Role.MEMBER];\n"

    assert check(make_package("lib", library), make_package("acme", own, "lib")).diagnostics == ()
    ambiguous = make_package("acme", f"{own}field w: Bool = [LEAD] == [LEAD];\n", "lib")
    assert "ambiguous-member" in list_kinds(check(make_package("lib", library), ambiguous))


def test_what_a_parent_imports_its_children_see() -> None:
    parent = make_package("eu", "field a: Int = A;\n", "lib")
    own = PackageFiles(Manifest("acme", "1", PackageReference("eu", "1")), {"b.bpc": b"field b: Int = A;\n"})

    assert check(make_package("lib", "const A = 1;\n"), parent, own).diagnostics == ()


def test_nothing_is_said_of_what_a_package_does_not_use() -> None:
    assert check(make_package("lib", "const A = 1;\ndef b = 2;\n")).diagnostics == ()
    assert (
        check(make_package("lib", "const A = 1;\n"), make_package("acme", "field x: Int = 1;\n", "lib")).diagnostics
        == ()
    )


def test_coverage_and_mutation_leave_out_what_is_imported() -> None:
    own = make_package("acme", "field x: Int = carriers(1);\n", "lib", tests_t="example e: {} => expect(x, == 1);;\n")
    texts = link_package([make_package("lib", LIBRARY), own])

    run = MutationRun(PackageTexts(texts.rules, texts.tests, "acme", "acme"))
    program = read_package(texts.rules, texts.tests).program

    assert {mutant.item for mutant in run.mutants} == {"x"}
    assert program is not None
    assert run_tests(program, seed=0).coverage.list_unreached() == []


def test_the_service_names_the_imported_file() -> None:
    library = make_package("lib", "field lost: Int = 1;\n")
    texts = link_package([library, make_package("acme", "field x: Int = 1;\n", "lib")])

    result = check_rule_sources(texts.rules, texts.tests)

    assert result.refusal is not None
    assert result.refusal.says == "lib/a.bpc:1:7: `lib` 1 is imported, and declares the field `lost`"
    assert result.diagnostics[0]["kind"] == "bad-import"


# Manifests and what a package needs


def test_a_manifest_states_imports_by_name() -> None:
    text = b'package "acme" "1"; import "b" "2"; extends "eu" "1"; import "a" "1" at "../a";'

    assert read_manifest("package.bpc", text) == Manifest(
        "acme", "1", PackageReference("eu", "1"), (PackageReference("a", "1", "../a"), PackageReference("b", "2"))
    )
    with pytest.raises(Invalid, match="states something twice"):
        read_manifest("package.bpc", b'package "acme" "1"; import "b" "2"; import "b" "3";')
    with pytest.raises(Invalid, match="is not a manifest"):
        read_manifest("package.bpc", b'package "acme" "1" at "x";')


def gather(**texts: str) -> list[str]:
    """The order of linking, from manifests by place; the first is linked."""

    def read(place: str) -> PackageFiles:
        return PackageFiles(read_manifest(place, texts[place].encode()), {"a.bpc": place.encode()})

    placed_packages = gather_packages(next(iter(texts)), read, lambda _, reference: reference.folder or reference.name)
    link_package([placed.package for placed in placed_packages])
    return [placed.manifest.name for placed in placed_packages]


def test_each_package_stands_once_and_after_those_it_imports() -> None:
    order = gather(
        acme='package "acme" "1"; extends "eu" "1"; import "z" "1"; import "a" "1";',
        eu='package "eu" "1"; import "m" "1";',
        z='package "z" "1"; import "m" "1";',
        a='package "a" "1"; import "z" "1"; import "m" "1";',
        m='package "m" "1";',
    )

    assert order == ["m", "z", "a", "eu", "acme"]


@pytest.mark.parametrize(
    ("manifests", "says"),
    [
        ({"a": 'package "a" "1"; import "a" "1";'}, "`a` imports itself: `a` -> `a`"),
        (
            {
                "a": 'package "a" "1"; import "b" "1";',
                "b": 'package "b" "1"; import "c" "1";',
                "c": 'package "c" "1"; import "b" "1";',
            },
            "`b` imports itself: `b` -> `c` -> `b`",
        ),
        (
            {
                "a": 'package "a" "1"; import "b" "1"; import "c" "1";',
                "b": 'package "b" "1"; import "c" "2" at "c2";',
                "c": 'package "c" "1";',
                "c2": 'package "c" "2";',
            },
            "`c` 2 is imported by `b`, and `c` 1 by `a`",
        ),
        (
            {"a": 'package "a" "1"; import "b" "2";', "b": 'package "b" "1";'},
            "`a` imports `b` 2, and the folder has `b` 1",
        ),
        (
            {"a": 'package "a" "1"; extends "b" "1"; import "b" "1";', "b": 'package "b" "1";'},
            "`b` is both extended and imported",
        ),
        (
            {
                "a": 'package "a" "1"; import "b" "1";',
                "b": 'package "b" "1"; extends "c" "1";',
                "c": 'package "c" "1";',
            },
            "`a` imports `b` 1, which extends `c` 1",
        ),
        (
            {
                "a": 'package "a" "1"; import "b" "1"; import "c" "1";',
                "b": 'package "b" "1"; import "c" "1" at "c2";',
                "c": 'package "c" "1";',
                "c2": 'package "c" "1";',
            },
            "`c` 1 is imported from two folders with different files: `c2`, `c`",
        ),
    ],
)
def test_packages_that_cannot_be_linked_are_refused(manifests: dict[str, str], says: str) -> None:
    with pytest.raises(Invalid) as refusal:
        gather(**manifests)

    assert says in refusal.value.says
    assert refusal.value.fix


def test_the_number_of_imported_packages_is_limited() -> None:
    names = [f"p{number}" for number in range(MAX_IMPORTED + 1)]
    imports = " ".join(f'import "{name}" "1";' for name in names)

    with pytest.raises(Invalid, match="needs more than 32 imported packages"):
        gather(acme=f'package "acme" "1"; {imports}', **{name: f'package "{name}" "1";' for name in names})


def test_packages_in_another_order_are_not_linked() -> None:
    with pytest.raises(Invalid, match="imports `lib` 1, which is not linked before it"):
        link_package([make_package("acme", "", "lib"), make_package("lib", "")])
