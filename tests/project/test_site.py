"""The documentation hangs together: every link leads somewhere, every page can be found, and the site is made of it.

Links are checked here, in the Markdown, so that a dead one is found in seconds; `make site` builds the pages and checks
them once more as a browser sees them.
"""

import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools import api_reference
from tools.site import built, navigation

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,}).*?^(?P=indent)(?P=ticks)`*[ ]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(
    r"!?\[(?P<text>(?:[^][]|\[[^]]*\])*)\]\((?P<target>[^()\s]*(?:\([^()]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)"
)
DEFINED = re.compile(r"^ {0,3}\[[^]]+\]: *<?(?P<target>\S+?)>?(?: |$)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *#*$", re.MULTILINE)
HERE = {"localhost", "127.0.0.1"}


def list_pages() -> list[Path]:
    """Every Markdown file that git has or would have."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / path for path in tracked if path and (ROOT / path).is_file()]


def strip_code(text: str) -> str:
    """`text` without what is shown as it is written: blocks, code, comments."""
    return CODE.sub("`code`", COMMENT.sub("", FENCED.sub("", text)))


def list_anchors(text: str) -> set[str]:
    """The places on a page that can be linked to, as GitHub and the site name them."""
    counts: Counter[str] = Counter()
    names = set()
    for heading in HEADING.finditer(COMMENT.sub("", FENCED.sub("", text))):
        title = LINK.sub(lambda link: link["text"], heading["text"]).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        names.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return names


@cache
def read_anchors(page: Path) -> set[str]:
    return list_anchors(page.read_text())


def list_links(text: str) -> Iterator[str]:
    visible_text = strip_code(text)
    for link in (*LINK.finditer(visible_text), *DEFINED.finditer(visible_text)):
        yield link["target"]


@pytest.fixture(scope="module")
def openapi_document() -> api_reference.Json:
    return api_reference.load_document()


def find_fault(page: Path, target: str) -> str | None:
    """What is wrong with a link on `page`."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return "is not a link"
    if parts.scheme or parts.netloc:
        # The Internet is not asked: only the form is looked at.
        good = (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in HERE) or parts.scheme == "mailto"
        )
        return None if good else "is not an https address"
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not file.is_relative_to(ROOT):
        return "leads out of the repository"
    if not file.is_file():
        return "leads to no file"
    if parts.fragment and file.suffix == ".md" and parts.fragment not in read_anchors(file):
        return "leads to no heading"
    return None


def test_every_link_leads_somewhere() -> None:
    faults = {
        f"{page.relative_to(ROOT)}: {target}": find_fault(page, target)
        for page in list_pages()
        for target in dict.fromkeys(list_links(page.read_text()))
    }

    assert len(faults) > 500
    assert {link: what for link, what in faults.items() if what} == {}


def test_every_page_is_in_the_navigation_once() -> None:
    docs = [str(page.relative_to(ROOT)) for page in list_pages() if page.is_relative_to(ROOT / "docs")]

    navigation_counts = Counter(navigation.iterate_pages(ROOT))

    assert sorted(set(docs) - set(navigation_counts)) == []
    assert sorted(page for page in navigation_counts if not (ROOT / page).is_file()) == []
    assert [page for page, times in navigation_counts.items() if times > 1] == []


def test_the_navigation_has_the_six_kinds_of_pages() -> None:
    titles = [section.title for section in navigation.read_sections((ROOT / navigation.INDEX).read_text())]

    assert titles == ["Start", "How-to guides", "Reference", "Explanation", "Packages of their own", "The project"]


def test_the_api_reference_is_made_from_the_openapi_document(openapi_document: api_reference.Json) -> None:
    assert api_reference.TARGET.read_text() == api_reference.format_page(openapi_document), "`make cases` rewrites it"


def test_the_api_reference_has_every_route_and_every_model(openapi_document: api_reference.Json) -> None:
    page = api_reference.TARGET.read_text()

    routes = {
        f"### `{method.upper()} {path}`" for path, methods in openapi_document["paths"].items() for method in methods
    }
    models = {f"### {name}" for name in openapi_document["components"]["schemas"]}
    assert (routes | models) - set(page.splitlines()) == set()


def test_the_site_has_an_environment_of_its_own_and_fails_on_every_warning() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    recipe = (ROOT / "Makefile").read_text().partition("\nsite: ")[2].partition("\n\n")[0]

    pinned = (ROOT / "requirements" / "site.txt").read_text()
    assert [
        requirement
        for requirement in groups["site"]
        if not re.search(rf"^{re.split('[<>=]', requirement)[0]}==", pinned, re.MULTILINE)
    ] == []
    assert "--fail-on-warning" in recipe
    assert "tools/site/built.py dist/site" in recipe


# The readers themselves

PAGE = """\
# A `first` page, (really)

[there](other.md#two-words) and [`code`](#a-first-page-really), not `[this](nowhere.md)`.

```text
[nor this](nowhere.md)
```

## Two words
## Two words

[by name][1]

[1]: https://example.org/ "A title"
"""


def test_links_are_read_where_they_are_links() -> None:
    assert list(list_links(PAGE)) == ["other.md#two-words", "#a-first-page-really", "https://example.org/"]


def test_places_on_a_page_have_the_names_that_github_gives_them() -> None:
    assert list_anchors(PAGE) == {"a-first-page-really", "two-words", "two-words-1"}


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("docs/tutorial.md", None),
        ("docs/tutorial.md#5-test-them", None),
        ("https://example.org/a?b#c", None),
        ("http://127.0.0.1:8080/v1/docs", None),
        ("docs/tutorials.md", "leads to no file"),
        ("docs/tutorial.md#no-such-heading", "leads to no heading"),
        ("#no-such-heading", "leads to no heading"),
        ("docs/rules", "leads to no file"),
        ("../elsewhere.md", "leads out of the repository"),
        ("http://example.org/", "is not an https address"),
        ("https://[broken", "is not a link"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(target: str, what: str | None) -> None:
    assert find_fault(ROOT / "README.md", target) == what


def test_what_a_built_page_loads_from_elsewhere_or_links_to_in_vain_is_found(tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("@import 'https://fonts.example/a.css'; a { background: url(here.png) }")
    (tmp_path / "other.html").write_text("<h1 id='top'>Other</h1>")
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="style.css"><script src="https://cdn.example/a.js"></script><img src="gone.png">'
        '<a href="other.html#top">a</a><a href="other.html#end">b</a><a href="gone.html">c</a>'
        '<a href="https://example.org/">followed by people only</a>'
    )

    assert built.find_faults(tmp_path) == [
        "index.html loads https://cdn.example/a.js",
        "index.html loads gone.png, which is not there",
        "index.html links to other.html#end, and there is no such place on that page",
        "index.html links to gone.html, which is not there",
        "style.css loads https://fonts.example/a.css",
    ]
