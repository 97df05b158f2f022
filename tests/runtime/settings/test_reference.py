"""The reference: every setting once, explained, and the committed files are the generated ones."""

from pathlib import Path

from bpc.runtime.settings.model import VARIABLES
from tests.runtime.settings.values import load_from
from tools.settings_reference import list_settings, write_env_example, write_markdown

ROOT = Path(__file__).parents[3]


def test_every_setting_is_listed_once_and_explained() -> None:
    entries = list_settings()

    assert [setting.name for setting in entries] == list(VARIABLES)
    assert all(setting.description.endswith(".") and setting.kind and setting.section for setting in entries)


def test_the_committed_files_are_made_from_the_model() -> None:
    hint = "run `python tools/settings_reference.py`"

    assert (ROOT / ".env.example").read_text(encoding="utf-8") == write_env_example(), hint
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == write_markdown(), hint


def test_copying_the_example_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(write_env_example(), encoding="utf-8")

    assert load_from({}, tmp_path) == load_from()


def test_uncommenting_the_whole_example_gives_the_defaults(tmp_path: Path) -> None:
    lines = write_env_example().splitlines()
    set_lines = [line.removeprefix("# ") for line in lines if line.startswith(("# BPC_", "# DATABASE_URL="))]
    (tmp_path / ".env").write_text("\n".join(set_lines), encoding="utf-8")

    settings = load_from({}, tmp_path)

    assert len(set_lines) == len(VARIABLES)
    assert settings.model_dump(exclude={"warnings"}) == load_from().model_dump(exclude={"warnings"})
