"""`bpc rules catalogue`: files for translators are made and updated, and what is wrong in them is named."""

import json
from pathlib import Path

import pytest

from bpc.core.catalogue.number_format import LANGUAGES
from bpc.core.catalogue.po_file import format_po, parse_po
from tests.cli.offline.test_rules_folder import write_files
from tests.cli.program import Program

ACME = {
    "package.bpc": 'package "acme" "1";\nextends "eu-battery" "2027.1";\n',
    "own.bpc": 'require ACME_MASS "at most {limit: 500} kg": battery.mass_kg ?? 0 <= 500\n'
    '  else "the battery weighs {mass: battery.mass_kg ?? 0} kg";\n'
    'field acme.crew @public: Int = 2 about "People to carry it" group "Handling";\n',
}


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    return write_files(tmp_path / "acme", ACME)


def translate(file: Path, translations: dict[str, str]) -> None:
    """Fill a file as a translator would."""
    text = file.read_text()
    for source, translation in translations.items():
        text = text.replace(f'msgid "{source}"\nmsgstr ""', f'msgid "{source}"\nmsgstr "{translation}"')
    file.write_text(text)


GERMAN = {
    "People to carry it": "Personen zum Tragen",
    "Handling": "Handhabung",
    "at most {limit} kg": "höchstens {limit} kg",
    "the battery weighs {mass} kg": "die Batterie wiegt {mass} kg",
}


def test_files_for_all_languages_have_only_what_is_not_shipped(bpc: Program, acme: Path) -> None:
    out = bpc.run_ok("rules", "catalogue", "extract", acme).out

    assert sorted(file.stem for file in (acme / "catalogue").iterdir()) == sorted(LANGUAGES)
    assert [entry.key for entry in parse_po((acme / "catalogue" / "de.po").read_bytes())][1:] == [
        ("field acme.crew", "People to carry it"),
        ("group", "Handling"),
        ("finding ACME_MASS title", "at most {limit} kg"),
        ("finding ACME_MASS message", "the battery weighs {mass} kg"),
    ]
    assert out.endswith(f"wrote {acme}/catalogue\n")


@pytest.mark.long
def test_a_filled_language_is_complete_and_an_update_keeps_it(bpc: Program, acme: Path) -> None:
    bpc.run_ok("rules", "catalogue", "extract", acme, "--language", "de")
    translate(acme / "catalogue" / "de.po", GERMAN)

    checked = bpc.run_ok("rules", "catalogue", "check", acme, "--language", "de", "--complete").out
    filled = (acme / "catalogue" / "de.po").read_bytes()
    bpc.run_ok("rules", "catalogue", "extract", acme)

    assert checked.split("\n")[1].split() == ["de", "4", "4", "0"]
    assert (acme / "catalogue" / "de.po").read_bytes() == filled


def test_a_changed_rule_marks_its_translation(bpc: Program, acme: Path) -> None:
    bpc.run_ok("rules", "catalogue", "extract", acme, "--language", "de")
    translate(acme / "catalogue" / "de.po", GERMAN)
    (acme / "own.bpc").write_text(ACME["own.bpc"].replace("weighs", "has"))

    bpc.run_ok("rules", "catalogue", "extract", acme)
    checked = bpc.run("rules", "catalogue", "check", acme, "--language", "de")

    assert checked.code == 0
    assert "has changed in English: look at its translation again" in checked.out
    assert bpc.run("rules", "catalogue", "check", acme, "--complete").code == 1


@pytest.mark.long
def test_lost_arguments_are_an_error(bpc: Program, acme: Path) -> None:
    bpc.run_ok("rules", "catalogue", "extract", acme, "--language", "de")
    translate(acme / "catalogue" / "de.po", {"at most {limit} kg": "höchstens {limt} kg"})

    ended = bpc.run("rules", "catalogue", "check", acme)
    report = json.loads(bpc.run("rules", "catalogue", "check", acme, "--json").out)

    assert ended.code == 1
    assert "lacks {limit} and has {limt}, which the English text has not" in ended.out
    assert ended.err.startswith("VALIDATION_ERROR: the catalogue is wrong or not complete for de")
    assert [problem["kind"] for problem in report["catalogues"][0]["problems"] if problem["is_error"]] == ["arguments"]


def test_the_shipped_catalogues_are_right(bpc: Program, tmp_path: Path) -> None:
    out = bpc.run_ok("rules", "catalogue", "check", "shipped:eu-battery", "-l", "de", "-l", "pl", "--complete").out

    assert [line.split()[0] for line in out.splitlines()] == ["LANGUAGE", "de", "pl"]
    assert bpc.run("rules", "catalogue", "extract", "shipped:eu-battery").code == 1


def test_a_language_that_is_none_and_a_folder_without_catalogues_are_refused(bpc: Program, acme: Path) -> None:
    assert "`xx` is not an official language" in bpc.run("rules", "catalogue", "extract", acme, "-l", "xx").err
    assert "there is no catalogue" in bpc.run("rules", "catalogue", "check", acme).err


def test_a_print_uses_a_catalogue_from_a_file(bpc: Program, tmp_path: Path) -> None:
    from tests.core.sample_passports import make_rich_bundle

    (tmp_path / "bundle.zip").write_bytes(make_rich_bundle())
    own = tmp_path / "de.po"
    own.write_bytes(format_po(parse_po(b'msgid ""\nmsgstr "Language: de\\n"\n')))
    files = {name: tmp_path / f"{name}.pdf" for name in ("en", "de")}

    for language, file in files.items():
        more = ("--catalogue", own) if language == "de" else ()
        bpc.run_ok("export", tmp_path / "bundle.zip", "--format", "pdf", "--language", language, *more, "--out", file)

    assert files["de"].read_bytes() != files["en"].read_bytes()
    refused = bpc.run("export", tmp_path / "bundle.zip", "--format", "xml", "--language", "de")
    assert "only a PDF is in a language" in refused.err
