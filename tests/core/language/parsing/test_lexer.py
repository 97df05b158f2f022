"""Specification of the lexer: which words a text has, where they stand, and what is wrong with them."""

import random  # noqa: TID251 seeded, so that a run can be repeated

import pytest

from bpc.core.language.parsing.lexer import BAD, END, NAME, NUMBER, TEXT, Lexer, decode_text, find_language
from bpc.core.language.source import Diagnostic, Span


def lex_all(text: str) -> tuple[Lexer, list[Diagnostic]]:
    diagnostics: list[Diagnostic] = []
    lexer = Lexer(text, diagnostics.append)
    while not lexer.is_complete:
        lexer.lex_more()
    return lexer, diagnostics


def list_words(text: str) -> list[tuple[str, str]]:
    lexer, diagnostics = lex_all(text)
    assert diagnostics == []
    assert lexer.kinds[-3:] == [END] * 3
    return list(zip(lexer.kinds, lexer.texts, strict=True))[:-3]


def list_mistakes(text: str) -> list[tuple[str, str]]:
    """Kind and text of every mistake."""
    return [(diagnostic.kind, text[diagnostic.span.start : diagnostic.span.end]) for diagnostic in lex_all(text)[1]]


def test_words_signs_numbers_and_texts_are_distinguished() -> None:
    assert list_words('let x_1 = f(1.50, "a") && y<=-2; -- rest') == [
        ("let", "let"),
        (NAME, "x_1"),
        ("=", "="),
        (NAME, "f"),
        ("(", "("),
        (NUMBER, "1.50"),
        (",", ","),
        (TEXT, '"a"'),
        (")", ")"),
        ("&&", "&&"),
        (NAME, "y"),
        ("<=", "<="),
        ("-", "-"),
        (NUMBER, "2"),
        (";", ";"),
    ]


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("a.b@c:d", [NAME, ".", NAME, "@", NAME, ":", NAME]),
        ("=>==!=!<=<>=>", ["=>", "==", "!=", "!", "<=", "<", ">=", ">"]),
        ("===>", ["==", "=>"]),
        ("10 -3", [NUMBER, "-", NUMBER]),
        ("10-3", [NUMBER, "-", NUMBER]),
        ("a--b", [NAME]),
        ("a- -b", [NAME, "-", "-", NAME]),
        ("Int.implies", [NAME, ".", NAME]),
        ("fields field", [NAME, "field"]),
        ('"--" -- "', [TEXT]),
        ("", []),
        (" \t\r\n", []),
    ],
)
def test_signs_are_as_long_as_they_can_be(text: str, signs: list[str]) -> None:
    assert [kind for kind, _ in list_words(text)] == signs


def test_every_word_knows_where_it_starts() -> None:
    lexer, _ = lex_all('é\n  "ö" b')

    assert list(zip(lexer.texts, lexer.starts, strict=True))[:-3] == [("é", 0), ('"ö"', 4), ("b", 8)]


def test_comments_lie_beside_the_words() -> None:
    lexer, _ = lex_all("a -- one\r\n-- two\n--\nb")

    assert lexer.comments == [(2, "-- one\r"), (10, "-- two"), (17, "--")]
    assert lexer.kinds[:-3] == [NAME, NAME]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ('""', ""),
        ('"a b"', "a b"),
        (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'),
        (r'"\u00e9\u00E9"', "éé"),
        (r'"\ud83d\ude00"', "😀"),
        ('"\x7f\u2028😀"', "\x7f\u2028😀"),
    ],
)
def test_a_text_says_what_its_escapes_say(literal: str, value: str) -> None:
    assert list_words(literal) == [(TEXT, literal)]
    assert decode_text(literal) == value


@pytest.mark.parametrize(
    ("text", "escape"),
    [
        (r'"a\xb"', r"\x"),
        (r'"\u12"', r"\u"),
        (r'"\u0000"', r"\u0000"),
        (r'"\ud800"', r"\ud800"),
        (r'"\udc00\ud800"', r"\udc00"),
        (r'"\ud83dx\ude00"', r"\ud83d"),
    ],
)
def test_an_escape_that_means_nothing_is_refused(text: str, escape: str) -> None:
    assert list_mistakes(text)[0] == ("bad-escape", escape)
    assert lex_all(text)[0].kinds[0] == TEXT


@pytest.mark.parametrize("text", ['"', '"abc', '"abc\\', '"abc\\"', '"abc\r'])
def test_a_text_ends_on_its_line(text: str) -> None:
    assert list_mistakes(f"{text}\nb") == [("unclosed-text", text.removesuffix("\r"))]
    assert lex_all(f"{text}\nb")[0].kinds[:-3] == [BAD, NAME]


def test_a_text_holds_no_raw_control_characters() -> None:
    assert list_mistakes('"a\tb"') == [("unexpected-character", "\t")]
    assert lex_all('"a\tb"')[1][0].help == "write `\\t`"


@pytest.mark.parametrize(
    ("number", "help_"),
    [
        ("1.", "write `1`"),
        (".5", "write `0.5`"),
        ("1e5", "write all its digits"),
        ("1kg", "a quantity is written `qty(1, kg)`"),
        ("1_000", "write `1000`"),
        ("1.2.3", "a number is digits, with at most one point between them"),
        ("1..2", "a number is digits, with at most one point between them"),
    ],
)
def test_what_only_looks_like_a_number_is_one_mistake(number: str, help_: str) -> None:
    lexer, diagnostics = lex_all(f"({number})")

    assert [(one.kind, one.span, one.help) for one in diagnostics] == [("bad-number", Span(1, 1 + len(number)), help_)]
    assert lexer.kinds[:-3] == ["(", NUMBER, ")"]


@pytest.mark.parametrize("number", ["0", "007", "1.50", "9" * 100])
def test_a_number_is_digits_with_a_point_between_them_at_most(number: str) -> None:
    assert list_words(number) == [(NUMBER, number)]


def test_long_numbers_and_names_are_refused() -> None:
    assert list_mistakes("9" * 101) == [("number-too-large", "9" * 101)]
    assert list_mistakes("a" * 64) == []
    assert list_mistakes("a" * 65) == [("name-too-long", "a" * 65)]
    assert len(list_mistakes(("a" * 65 + " ") * 3)) == 1  # the name, not its uses


@pytest.mark.parametrize(
    ("text", "piece", "help_"),
    [
        ("a & b", "&", "`&&` is the logical and"),
        ("a | b", "|", "`||` is the logical or"),
        ("# a", "#", "`--` starts a comment"),
        ("a ? b", "?", None),
        ("'abc'", "'abc'", 'write `"…"`'),
        ("“abc”", "“abc”", 'write `"…"`'),
        ("größe", "öß", "only ASCII characters are allowed outside texts and comments"),
        ("\x00", "\x00", None),
        ("٣", "٣", "only ASCII characters are allowed outside texts and comments"),
        ("\ud800", "\ud800", "only ASCII characters are allowed outside texts and comments"),
    ],
)
def test_characters_that_mean_nothing_are_one_mistake(text: str, piece: str, help_: str | None) -> None:
    diagnostics = lex_all(text)[1]

    assert [(one.kind, text[one.span.start : one.span.end], one.help) for one in diagnostics] == [
        ("unexpected-character", piece, help_)
    ]


def test_an_invisible_character_is_named_by_its_number() -> None:
    assert lex_all("\u202e")[1][0].message == "unexpected character U+202E"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow
def test_where_a_window_ends_makes_no_difference(seed: int) -> None:
    chosen = random.Random(seed)
    pieces = ["field ", "a", " ", "1.5", "==", "=", ">", '"a\\"b"', "-- c\n", "-", "\n", "€", "(", "&&", "x" * 40_000]
    text = " ".join(chosen.choice(pieces[:-1]) for _ in range(40_000))
    text += "\n" + pieces[-1] + '"' + "y" * 90_000 + '" '

    lexer, _ = lex_all(text)

    joined = "".join(
        piece
        for _, piece in sorted(
            [*zip(lexer.starts, lexer.texts, strict=True), *lexer.comments], key=lambda pair: pair[0]
        )
    )
    assert joined == "".join(split_without_blanks(text))


def split_without_blanks(text: str) -> list[str]:
    """`text` without the blanks between words, read character by character."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        start = at
        if text[at] == '"':
            at += 1
            while text[at] != '"':
                at += 2 if text[at] == "\\" else 1
            at += 1
            pieces.append(text[start:at])
        elif text.startswith("--", at):
            at = text.index("\n", at)
            pieces.append(text[start:at])
        else:
            at += 1
            pieces.append(text[start:at].strip(" \n"))
    return pieces


def test_a_bar_is_a_sign_of_level_two_only() -> None:
    assert find_language("-- rules\n language -- level\n 2;") == 2
    assert find_language("field language: Int = 2;") is None
    assert [kind for kind in lex_at_level(1, "a | b")[0] if kind] == ["name", "bad", "name"]
    assert lex_at_level(2, "a | b") == (["name", "|", "name"], [])


def lex_at_level(level: int, text: str) -> tuple[list[str], list[str]]:
    """The kinds of the words, and the kinds of the mistakes."""
    mistakes: list[Diagnostic] = []
    lexer = Lexer(text, mistakes.append, level)
    while not lexer.is_complete:
        lexer.lex_more()
    return lexer.kinds[:-3], [mistake.kind for mistake in mistakes]
