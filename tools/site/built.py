"""Look at a site that was built: everything it links to is there, and nothing is loaded from another place.

python tools/site/built.py dist/site
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself when it shows a page; other links are followed by people.
LOADS: Final = {
    ("audio", "src"),
    ("embed", "src"),
    ("iframe", "src"),
    ("img", "src"),
    ("link", "href"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("video", "src"),
}
NAMES_ONLY: Final = {"canonical", "license", "author", "me"}
FROM_STYLES: Final = re.compile(r"""(?:url\(\s*|@import\s+)["']?(?P<url>(?:https?:)?//[^"')\s]+)""")


@dataclass(slots=True)
class Page(HTMLParser):
    """What a page loads, links to, and can be linked to at."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        for name, value in attributes.items():
            if (tag, name) in LOADS and attributes.get("rel") not in NAMES_ONLY:
                self.loads.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def find_faults(site: Path) -> list[str]:
    """Sentences about what is wrong with the site in the folder `site`; none if nothing is."""
    pages = {file: _parse_page(file) for file in sorted(site.rglob("*.html"))}
    page_faults = [fault for file, page in pages.items() for fault in _find_page_faults(site, file, page, pages)]
    styles = [
        f"{file.relative_to(site)} loads {style['url']}"
        for file in sorted(site.rglob("*.css"))
        for style in FROM_STYLES.finditer(file.read_text(encoding="utf-8"))
    ]
    return page_faults + styles


def _parse_page(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def _find_page_faults(site: Path, file: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    page_path = file.relative_to(site)
    for url in page.loads:
        parts = urlsplit(url)
        if parts.netloc or parts.scheme not in {"", "data"}:
            yield f"{page_path} loads {url}"
        elif parts.path and not parts.scheme and not (file.parent / unquote(parts.path)).is_file():
            yield f"{page_path} loads {url}, which is not there"
    for url in page.links:
        parts = urlsplit(url)
        if parts.netloc or parts.scheme:
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
        if not target.is_file():
            yield f"{page_path} links to {url}, which is not there"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"{page_path} links to {url}, and there is no such place on that page"


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    fault_lines = find_faults(site)
    print(
        "\n".join(fault_lines)
        or f"{len(list(site.rglob('*.html')))} pages: every link leads somewhere, and nothing comes from elsewhere"
    )
    sys.exit(1 if fault_lines else 0)


if __name__ == "__main__":
    main()
