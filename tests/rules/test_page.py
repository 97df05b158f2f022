"""The page about the shipped package says what the package does."""

from tools import shipped_rules


def test_the_page_is_that_of_the_package() -> None:
    assert shipped_rules.PAGE.read_text(encoding="utf-8") == shipped_rules.format_page(), "run `make cases`"
