"""`bpc rules fields`, and what `bpc rules check --json` says of fields for people."""

from pathlib import Path

import pytest

from tests.cli.offline.rule_texts import WRONG, write
from tests.cli.program import Program

RULES = """language 2;
field waste.collection @public: Opt(Text) = none about DP43.2 "Separate collection";
field battery.mass_kg @public @authority: Dec(3) = 12.5
  about DP10 "Mass of the battery" cite "Annex VI, Part A, point 5" unit "kg" label de "Masse der Batterie";
field battery.step: Int = 1;
"""
ABOUT_MASS = {
    "point": "10",
    "label": "Mass of the battery",
    "group": None,
    "order": None,
    "citation": "Annex VI, Part A, point 5",
    "unit": "kg",
    "help": None,
    "translations": {"de": {"label": "Masse der Batterie", "help": None}},
}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return write(tmp_path, "rules.bpc", RULES)


def test_fields_are_listed_by_data_point(bpc: Program, rules: Path) -> None:
    lines = bpc.run_ok("rules", "fields", rules).out.splitlines()

    assert [" ".join(line.split()) for line in lines] == [
        "POINT LABEL FIELD TYPE AUDIENCE CITATION",
        "10 Mass of the battery battery.mass_kg Dec(3) authority, public Annex VI, Part A, point 5",
        "43.2 Separate collection waste.collection Opt(Text) public",
        "battery.step Int",
    ]


def test_programs_get_all_that_rules_say(bpc: Program, rules: Path) -> None:
    fields = bpc.run_ok("rules", "fields", rules, "--json").json()["fields"]

    assert [field["path"] for field in fields] == ["battery.mass_kg", "waste.collection", "battery.step"]
    assert fields[0] == {
        "path": "battery.mass_kg",
        "type": "Dec(3)",
        "audiences": ["authority", "public"],
        "about": ABOUT_MASS,
    }
    assert fields[2]["about"] is None


def test_a_check_lists_the_fields_that_say_what_they_are(bpc: Program, rules: Path, tmp_path: Path) -> None:
    plain = write(tmp_path, "plain.bpc", "field a: Int = 1;")

    document = bpc.run_ok("rules", "check", rules, "--json").json()

    assert {field["path"]: field["about"]["label"] for field in document["fields"]} == {
        "battery.mass_kg": "Mass of the battery",
        "waste.collection": "Separate collection",
    }
    assert bpc.run_ok("rules", "check", plain, "--json").json() == {"diagnostics": []}


def test_rules_with_mistakes_are_refused(bpc: Program, tmp_path: Path) -> None:
    ended = bpc.run("rules", "fields", write(tmp_path, "wrong.bpc", WRONG))

    assert (ended.code, ended.err.partition(":")[0]) == (1, "RULE_TYPE_ERROR")
