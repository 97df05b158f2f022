"""Files in a bundle: each has the hash that it is named by, and a fact that names it."""

from collections.abc import Mapping

import pytest

from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.passport.bundle import write_archive
from bpc.core.verify.bundle import verify_bundle
from tests.core.exports.example_bundles import compile_example
from tools import reference_input


def make_bundle_with_files(files: Mapping[str, bytes]) -> bytes:
    """The bundle of the reference example with these entries in `attachments/`."""
    return write_archive({**compile_example("reference-2").entries, **files})


def list_shipped_files() -> dict[str, bytes]:
    contents = reference_input.make_files().values()
    return {f"attachments/{to_hex(sha256(content))}": content for content in contents}


def test_a_bundle_with_the_files_that_its_facts_name_verifies_and_one_without_them_too() -> None:
    for files in (list_shipped_files(), dict(list(list_shipped_files().items())[:1]), {}):
        report = verify_bundle(make_bundle_with_files(files))

        assert [step for step in report.steps if not step.ok] == []
        [facts] = [step for step in report.steps if step.name == "facts"]
        assert ("attached file" in facts.detail) == bool(files)


def test_an_attached_file_that_was_changed_is_found() -> None:
    name = next(iter(list_shipped_files()))

    report = verify_bundle(make_bundle_with_files({name: b"%PDF-1.4 another one"}))

    assert next((step.name, name in step.detail) for step in report.steps if not step.ok) == ("facts", True)


def test_an_attached_file_that_no_fact_names_is_found() -> None:
    content = b"%PDF-1.4 smuggled"

    report = verify_bundle(make_bundle_with_files({f"attachments/{to_hex(sha256(content))}": content}))

    [failed, *_] = [step for step in report.steps if not step.ok]
    assert (failed.name, "not named by any fact" in failed.detail) == ("facts", True)


@pytest.mark.parametrize(
    "name", ["attachments/", "attachments/x", f"attachments/{'A' * 64}", f"attachments/{'a' * 65}"]
)
def test_an_attachment_is_named_by_a_hash_and_by_nothing_else(name: str) -> None:
    report = verify_bundle(make_bundle_with_files({name: b""}))

    assert "unknown entry" in report.steps[0].detail
