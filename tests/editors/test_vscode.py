"""The extension for Visual Studio Code: its grammar colours what our lexer reads, and it can be packaged."""

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from bpc.core.language.editing.language_words import KEYWORDS
from bpc.core.language.parsing.lexer import END, NUMBER, RESERVED, TEXT, Lexer
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source
from tools.editor_grammar import GRAMMAR, format_grammar

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"
INSTALLED = ROOT / ".node" / "editor"
CORPUS = sorted(
    {
        *(ROOT / "src/bpc/rules").rglob("*.bpc"),
        *(ROOT / "tests/core/golden").rglob("*.bpc"),
        *(ROOT / "examples").rglob("*.bpc"),
    }
)


def test_the_grammar_is_made_from_the_words_of_the_language() -> None:
    assert GRAMMAR.read_text() == format_grammar(), "run `make cases`"


def test_the_grammar_has_every_word() -> None:
    text = GRAMMAR.read_text()

    assert [word for word in KEYWORDS if word not in text] == []


def test_the_lock_file_names_no_index() -> None:
    lock = json.loads((EXTENSION / "package-lock.json").read_text())

    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    assert lock["packages"][""]["version"] == json.loads((EXTENSION / "package.json").read_text())["version"]


def test_what_the_manifest_names_is_there() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    contributes = manifest["contributes"]
    files = [
        manifest["main"],
        contributes["languages"][0]["configuration"],
        contributes["grammars"][0]["path"],
        contributes["snippets"][0]["path"],
    ]

    assert [file for file in files if not (EXTENSION / file).is_file()] == []
    assert manifest["contributes"]["configuration"]["properties"]["bpc.command"]["default"] == ["bpc", "rules", "lsp"]


def test_snippets_are_rules() -> None:
    snippets = json.loads((EXTENSION / "snippets/bpc.json").read_text())

    for name, snippet in snippets.items():
        text = fill_snippet("\n".join(snippet["body"]))
        parsed = parse(Source(name, f"language 2;\n{text}"))
        assert parsed.diagnostics == (), (name, text, parsed.diagnostics)
        assert len(parsed.tree.items) == 1


def fill_snippet(body: str) -> str:
    """The text of a snippet with what it proposes."""
    values: dict[str, str] = {}

    def fill(match: re.Match[str]) -> str:
        number, default, choices = match[1] or match[4], match[2], match[3]
        if default is not None or choices is not None:
            values[number] = default if default is not None else choices.split(",")[0]
        return values.get(number, "")

    return re.sub(r"\$\{([0-9]+)(?::([^}]*)|\|([^}|]*)\|)\}|\$([0-9]+)", fill, body)


TOKENIZE = """
const fs = require("fs"), path = require("path"), home = process.argv[1];
const load = (name) => require(path.join(home, "node_modules", name));
const { Registry, parseRawGrammar, INITIAL } = load("vscode-textmate"), onig = load("vscode-oniguruma");
const wasm = fs.readFileSync(path.join(home, "node_modules/vscode-oniguruma/release/onig.wasm"));
const library = onig.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength)).then(() => ({
  createOnigScanner: (patterns) => new onig.OnigScanner(patterns),
  createOnigString: (text) => new onig.OnigString(text),
}));
const grammarFile = process.argv[2];
const registry = new Registry({
  onigLib: library,
  loadGrammar: async () => parseRawGrammar(fs.readFileSync(grammarFile, "utf8"), grammarFile),
});
registry.loadGrammar("source.bpc").then((grammar) => {
  for (const file of process.argv.slice(3)) {
    let stack = INITIAL;
    const lines = fs.readFileSync(file, "utf8").split("\\n").map((line) => {
      const result = grammar.tokenizeLine(line, stack);
      stack = result.ruleStack;
      return result.tokens.map((token) => [token.startIndex, token.scopes.join(" ")]);
    });
    console.log(JSON.stringify(lines));
  }
});
"""


def require_installed(name: str) -> None:
    if shutil.which("node") is None or not (INSTALLED / "node_modules" / name).is_dir():
        pytest.skip(f"{name} is not installed: `make editor` does it where npm works")


@pytest.mark.slow
def test_grammar_and_lexer_agree_on_every_rule_file() -> None:
    require_installed("vscode-textmate")
    command = ["node", "-e", TOKENIZE, str(INSTALLED), str(GRAMMAR), *map(str, CORPUS)]

    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert len(CORPUS) == len(output) > 20
    differences = [
        (path.name, *difference)
        for path, lines in zip(CORPUS, output, strict=True)
        for difference in list_differences(path.read_text(), json.loads(lines))
    ]
    assert differences == []


def list_differences(text: str, lines: list[list[tuple[int, str]]]) -> list[tuple[str, str]]:
    """The words that the grammar takes for something else than the lexer does."""
    lexer = Lexer(text, lambda _diagnostic: None, 2)
    while not lexer.is_complete:
        lexer.lex_more()
    words = [
        (kind, word, at) for kind, word, at in zip(lexer.kinds, lexer.texts, lexer.starts, strict=True) if kind != END
    ]
    words += [("comment", word, at) for at, word in lexer.comments]
    differences = []
    for kind, word, at in words:
        scopes = find_scopes(text, lines, at)
        for what, name in (("comment", "comment."), (TEXT, "string."), (NUMBER, "constant.numeric")):
            if (name in scopes) != (kind == what):
                differences.append((word, scopes))
        is_in_path = text[at - 1 : at] == "."
        if kind in RESERVED and not is_in_path and "keyword." not in scopes and "constant.language" not in scopes:
            differences.append((word, scopes))
    return differences


def find_scopes(text: str, lines: list[list[tuple[int, str]]], offset: int) -> str:
    line_start = text.rfind("\n", 0, offset) + 1
    column = len(text[line_start:offset].encode("utf-16-le")) // 2
    tokens = lines[text.count("\n", 0, offset)]
    return next((scopes for start, scopes in reversed(tokens) if start <= column), "")


@pytest.mark.slow
def test_the_extension_is_packaged(tmp_path: Path) -> None:
    require_installed("@vscode/vsce")
    target = tmp_path / "bpc-rules.vsix"
    vsce = str(INSTALLED / "node_modules/.bin/vsce")
    command = [vsce, "package", "--allow-missing-repository", "--out", str(target)]

    subprocess.run(command, cwd=INSTALLED, capture_output=True, text=True, check=True)

    names = zipfile.ZipFile(target).namelist()
    assert {
        "extension/package.json",
        "extension/extension.js",
        "extension/syntaxes/bpc.tmLanguage.json",
        "extension/node_modules/vscode-languageclient/node.js",
    } <= set(names)
    assert [name for name in names if "vscode-textmate" in name or "@vscode/vsce" in name] == []
