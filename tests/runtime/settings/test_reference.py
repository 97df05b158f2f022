"""The reference: every setting once, explained, and the committed files are the generated ones."""

from pathlib import Path

from bpc.settings.model import VARIABLES
from bpc.settings.reference import env_example, markdown, reference
from tests.settings.values import loaded

ROOT = Path(__file__).parents[2]


def test_every_setting_is_listed_once_and_explained() -> None:
    listed = reference()

    assert [setting.name for setting in listed] == list(VARIABLES)
    assert all(setting.description.endswith(".") and setting.kind and setting.section for setting in listed)


def test_the_committed_files_are_made_from_the_model() -> None:
    said = "run `python tools/settings_reference.py`"

    assert (ROOT / ".env.example").read_text(encoding="utf-8") == env_example(), said
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == markdown(), said


def test_copying_the_example_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(env_example(), encoding="utf-8")

    assert loaded({}, tmp_path) == loaded()


def test_uncommenting_the_whole_example_gives_the_defaults(tmp_path: Path) -> None:
    lines = env_example().splitlines()
    set_lines = [line.removeprefix("# ") for line in lines if line.startswith(("# BPC_", "# DATABASE_URL="))]
    (tmp_path / ".env").write_text("\n".join(set_lines), encoding="utf-8")

    found = loaded({}, tmp_path)

    assert len(set_lines) == len(VARIABLES)
    assert found.model_dump(exclude={"warnings"}) == loaded().model_dump(exclude={"warnings"})
