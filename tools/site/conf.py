"""The documentation's site, `make site`: every page of docs/ and what they lead to, readable without a network.

Pages stay plain Markdown, as they are read on GitHub. What only the site needs, lists of pages, is added here while a
page is read. Whatever Sphinx warns of, such as a link that leads nowhere or a page that is in no list, fails the build.
"""

import sys
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.site.lexer import RuleLexer  # noqa: E402 (Sphinx starts elsewhere)
from tools.site.navigation import INDEX, list_folder_pages, read_sections  # noqa: E402

project = "BPC"
html_title = "Battery Passport Compiler"
copyright = ""  # noqa: A001 (Sphinx reads this name)
language = "en"

extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = INDEX.removesuffix(".md")
include_patterns = [
    *("docs/**.md", "examples/*/README.md", "packages/*/README.md", "packages/*/docs/*.md"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
]
exclude_patterns = [".*", "bench", "build", "deploy", "dist", "htmlcov", "requirements", "src", "tests", "tools"]
myst_heading_anchors = 6

html_theme = "furo"
templates_path = ["templates"]
html_additional_pages = {"index": "start.html"}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_permalinks_icon = "#"
# The button copies what is typed, without prompt and output.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"


def add_lists(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001 (Sphinx's signature)
    """Add to the index its sections, and to a folder's README.md its folder, as lists that only the site shows."""
    page = f"{docname}.md"
    if page == INDEX:
        source[0] += "".join(
            _format_toctree(section.pages, caption=section.title) for section in read_sections(source[0])
        )
    elif pages := list_folder_pages(ROOT, page) if docname.startswith("docs/") else []:
        source[0] += _format_toctree(pages)


def _format_toctree(pages: tuple[str, ...] | list[str], caption: str = "") -> str:
    names = "\n".join(f"/{PurePosixPath(page).with_suffix('')}" for page in pages)
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n\n```{{toctree}}\n{options}\n{names}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    for name in RuleLexer.aliases:
        app.add_lexer(name, RuleLexer)
    app.add_lexer("ebnf", TextLexer)  # Pygments' own knows less of it than our grammar uses
    app.connect("source-read", add_lists)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
