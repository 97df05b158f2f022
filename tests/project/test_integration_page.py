"""The page that connects other systems: what it says of its length is true."""

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "integration.md").read_text()
WITH_CURL = PAGE.split("## With curl alone")[1].split("## With Python")[0]
PROGRAM = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
NUMBERS = {"eight": 8, "seventeen": 17}


def test_the_number_of_calls_is_the_one_it_says() -> None:
    calls = re.findall(r"\bcall (?:-X|\")", WITH_CURL)

    assert "Both take eight calls" in PAGE
    assert "That were eight requests" in WITH_CURL
    assert len(calls) == NUMBERS["eight"]


def test_the_number_of_lines_is_the_one_it_says() -> None:
    lines = [line for line in PROGRAM.splitlines() if line.strip()]

    assert "seventeen lines" in PAGE
    assert len(lines) == NUMBERS["seventeen"]
