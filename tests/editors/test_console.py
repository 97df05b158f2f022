"""The editor of the console: the committed file is what its sources build, and its colours are what our lexer reads."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from bpc.api.console.assets import FOLDER
from bpc.core.language.parsing.lexer import END, NUMBER, RESERVED, TEXT, Lexer
from tests.editors.test_vscode import CORPUS
from tests.measurements import choose_effort
from tools.editor_grammar import CONSOLE_WORDS, format_console_words

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "editors" / "console"
INSTALLED = ROOT / ".node" / "console"
NPM = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--silent")


@cache
def install_packages() -> Path:
    """The folder with CodeMirror and esbuild, installed with the lock file where npm is."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not on this machine: what builds the editor cannot be installed")
    lock = SOURCES / "package-lock.json"
    if not (INSTALLED / ".ready").exists() or (INSTALLED / ".ready").read_bytes() != lock.read_bytes():
        INSTALLED.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", lock.name):
            shutil.copy(SOURCES / name, INSTALLED / name)
        if subprocess.run(NPM, cwd=INSTALLED, check=False, timeout=300).returncode != 0:
            pytest.skip("the packages of editors/console cannot be installed here")
        shutil.copy(lock, INSTALLED / ".ready")
    return INSTALLED


@pytest.mark.slow
def test_the_committed_editor_is_what_its_sources_build(tmp_path: Path) -> None:
    folder = install_packages()
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    target = tmp_path / "editor.js"

    subprocess.run(["node", "build.mjs", str(target)], cwd=folder, check=True, timeout=60)

    assert target.read_bytes() == (FOLDER / "editor.js").read_bytes(), "run `make console-editor`"


def test_the_words_of_the_editor_are_made_from_those_of_the_language() -> None:
    assert CONSOLE_WORDS.read_text() == format_console_words(), "run `make cases`"


def test_the_lock_file_names_no_index() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())

    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


def test_the_editor_evaluates_no_text_and_loads_no_code() -> None:
    script = (FOLDER / "editor.js").read_text()

    assert re.findall(r"\beval\(|new Function\(|import\(|importScripts\(", script) == []


TOKENIZE = """
import { readFileSync } from "node:fs";
import { StringStream } from "@codemirror/language";
import { bpcParser } from "./src/language.js";
for (const file of process.argv.slice(2)) {
  const state = bpcParser.startState();
  const lines = readFileSync(file, "utf8").split("\\n").map((line) => {
    const stream = new StringStream(line, 4, 2);
    const tokens = [];
    while (!stream.eol()) {
      stream.start = stream.pos;
      const kind = bpcParser.token(stream, state);
      if (kind) tokens.push([stream.start, stream.pos, kind]);
    }
    return tokens;
  });
  console.log(JSON.stringify(lines));
}
"""


@pytest.mark.slow
def test_the_colours_of_the_editor_and_the_lexer_agree_on_every_rule_file() -> None:
    files = CORPUS[:: choose_effort(test=3, shown=1, campaign=1)]
    folder = install_packages()
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    command = ["node", "--input-type=module", "-", *map(str, files)]

    output = subprocess.run(command, cwd=folder, input=TOKENIZE, capture_output=True, text=True, check=False)

    assert output.returncode == 0, output.stderr
    answers = output.stdout.splitlines()
    assert len(answers) == len(files) > 5
    differences = [
        (path.name, *difference)
        for path, lines in zip(files, answers, strict=True)
        for difference in list_differences(path.read_text(), json.loads(lines))
    ]
    assert differences == []


def list_differences(text: str, lines: list[list[tuple[int, int, str]]]) -> list[tuple[str, str]]:
    """The words that the editor takes for something else than the lexer does."""
    lexer = Lexer(text, lambda _diagnostic: None, 2)
    while not lexer.is_complete:
        lexer.lex_more()
    words = [
        (kind, word, at) for kind, word, at in zip(lexer.kinds, lexer.texts, lexer.starts, strict=True) if kind != END
    ]
    words += [("comment", word, at) for at, word in lexer.comments]
    differences = []
    for kind, word, at in words:
        colour = find_colour(text, lines, at)
        for what, name in (("comment", "comment"), (TEXT, "string"), (NUMBER, "number")):
            if (colour == name) != (kind == what):
                differences.append((word, colour))
        if kind in RESERVED and text[at - 1 : at] != "." and colour not in ("keyword", "atom"):
            differences.append((word, colour))
    return differences


def find_colour(text: str, lines: list[list[tuple[int, int, str]]], offset: int) -> str:
    line_start = text.rfind("\n", 0, offset) + 1
    column = len(text[line_start:offset].encode("utf-16-le")) // 2
    tokens = lines[text.count("\n", 0, offset)]
    return next((kind for start, end, kind in tokens if start <= column < end), "")
