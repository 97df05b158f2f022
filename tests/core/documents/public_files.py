"""The published example files of public formats. They are not ours and stand beside the repository, if at all."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PUBLISHED_FOLDER = ROOT.parent / "shared" / "domain" / "data"
EXAMPLES = ROOT / "examples" / "formats"


def read_published_file(name: str) -> bytes:
    """A published file; without the folder the test is skipped, saying so."""
    if not PUBLISHED_FOLDER.is_dir():
        pytest.skip("the public example files are not on this machine")
    return (PUBLISHED_FOLDER / name).read_bytes()


def read_example(name: str) -> bytes:
    """An example of our own in a public format."""
    return (EXAMPLES / f"{name}.json").read_bytes()


def list_example_names() -> list[str]:
    return sorted(file.stem for file in EXAMPLES.glob("*.json"))
