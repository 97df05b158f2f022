"""What `tools.mutants` changes, and the tests that have to notice."""

from typing import NamedTuple


class Target(NamedTuple):
    """Modules to change (a package means all in it), the tests to notice, and what all its children may share."""

    modules: str
    tests: tuple[str, ...]  # quick and sharp ones first, for the first failure ends a run
    loaded: tuple[str, ...]  # before forking; nothing here may import the changed modules
    slow: tuple[str, ...] = ()  # of these tests, to be tried only on what survives the others


FOREIGN = ("pytest", "hypothesis", "orjson", "zxingcpp", "cryptography.hazmat.primitives.asymmetric.ed25519")
# In this order, because what one target loads stays loaded for the next.
TARGETS = {
    "canon": Target(
        "bpc.core.formats.canonical_json",
        (
            "tests/core/test_vectors.py",
            "tests/core/formats/test_canonical_json.py",
            "tests/core/formats/test_canonical_json_reading.py",
        ),
        (),
    ),
    "proof": Target(
        "bpc.core.passport.proof",
        (
            "tests/core/passport/test_proof.py",
            "tests/core/test_vectors.py",
            "tests/core/test_golden.py::test_the_bytes_are_those_that_were_signed",
            "tests/core/passport/test_compile.py",
        ),
        (
            "bpc.core.formats.canonical_json",
            "bpc.core.passport.receipt",
            "bpc.core.passport.qr",
            "bpc.core.language.package",
        ),
    ),
    "verify": Target(
        "bpc.core.verify",
        (
            "tests/core/verify/test_bundle.py::test_an_honest_bundle_holds_in_every_step",
            "tests/core/verify/test_canonical.py",
            "tests/core/verify/test_proof_structure.py",
            "tests/core/verify/test_proof_structure_nodes.py",
            "tests/core/verify/test_forged_computations.py",
            "tests/core/verify/test_forged_facts.py",
            "tests/core/verify/test_artifacts.py",
            "tests/core/verify/test_bundle_views.py",
            "tests/core/exports/test_disclosure_views.py",
            "tests/core/verify/test_bundle.py",
            # What fails on a busy machine would kill mutants that it does not notice.
            "--deselect=tests/core/verify/test_bundle.py::test_rules_that_run_to_the_limit_are_stopped",
            "--deselect=tests/core/verify/test_bundle.py::test_zip_bombs_are_refused_in_bounded_time_and_memory",
        ),
        (
            "tests.core.sample_passports",
            "tests.core.language.random_programs.program",
            "bpc.core.language.reference.derive",
            "bpc.core.passport.compile",
        ),
        (
            "tests/core/verify/test_bundle.py::test_whatever_the_compiler_compiles_holds",
            "tests/core/verify/test_bundle.py::test_json_of_any_other_shape_gets_a_report",
            "tests/core/verify/test_bundle.py::test_views_of_any_other_shape_get_a_report",
            "tests/core/verify/test_bundle.py::test_lines_and_texts_of_any_other_shape_get_a_report",
            "tests/core/verify/test_proof_structure.py::test_any_change_of_any_node_is_found_though_everything_is_signed_anew",
            "tests/core/exports/test_disclosure_views.py::test_the_checker_on_the_page_agrees_about_every_flipped_bit",
            "tests/core/verify/test_bitflips.py",
        ),
    ),
}
