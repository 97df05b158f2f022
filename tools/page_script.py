"""Write the scripts of the public page and of the console: the verifier (`packages/bpc-verify-js`) and their own code.

One file is one request, and works without a network once it is loaded. Modules are put one behind the other, what they
import first; their names are different, so nothing needs to be renamed.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MODULES: Final = ROOT / "packages" / "bpc-verify-js" / "src"
ASSETS: Final = ROOT / "src" / "bpc" / "printing" / "web_page" / "assets"
SOURCE: Final = ASSETS.parent / "page_source.js"
CONSOLE: Final = ROOT / "src" / "bpc" / "api" / "console"
IMPORT: Final = re.compile(r'^import \{[^}]*\} from "([a-z0-9./-]+)";\n', re.MULTILINE)
COMMENT: Final = re.compile(r"/\*\*.*?\*/ ?", re.DOTALL)
LINE_COMMENT: Final = re.compile(r"^ *// .*$", re.MULTILINE)
FIRST_LINE: Final = (
    "/* Made from packages/bpc-verify-js and page_source.js by tools/page_script.py. Licence: Apache-2.0. */\n"
)


def build_script() -> str:
    """The script of every page, without comments."""
    parts: dict[Path, str] = {}
    for name in ("anything", "keys", "log-policy", "passport"):
        _add_module(MODULES / f"{name}.js", parts)
    return _join_parts([*parts.values(), IMPORT.sub("", SOURCE.read_text())])


def build_rules_script() -> str:
    """The evaluator of rules, a module of its own: only who checks a bundle loads it."""
    parts: dict[Path, str] = {}
    _add_module(MODULES / "rules" / "proof-steps.js", parts)
    return _join_parts([*parts.values(), "export { recomputeProof };\n"])


def build_console_script() -> str:
    """The script of the console's proof explorer. The evaluator has a scope of its own: names are used twice."""
    parts: dict[Path, str] = {}
    _add_module(MODULES / "anything.js", parts)
    rules: dict[Path, str] = {}
    _add_module(MODULES / "rules" / "proof-steps.js", rules)
    evaluator = ["const { recomputeProof } = (() => {\n", *rules.values(), "return { recomputeProof };\n})();\n"]
    return _join_parts([*parts.values(), *evaluator, IMPORT.sub("", (CONSOLE / "proof_source.js").read_text())])


def _join_parts(parts: Iterable[str]) -> str:
    return FIRST_LINE + re.sub("\n\\s*\n", "\n", LINE_COMMENT.sub("", COMMENT.sub("", "".join(parts))))


def _add_module(file: Path, parts: dict[Path, str]) -> None:
    """Add a module behind those that it imports."""
    if file in parts:
        return
    source = file.read_text()
    for needed in IMPORT.findall(source):
        _add_module((file.parent / needed).resolve(), parts)
    parts[file] = re.sub("^export ", "", IMPORT.sub("", source), flags=re.MULTILINE)


if __name__ == "__main__":
    (ASSETS / "page.js").write_text(build_script())
    (ASSETS / "rules.js").write_text(build_rules_script())
    (CONSOLE / "static" / "proof.js").write_text(build_console_script())
