from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.words import ascii_only, clean, cut, label, number


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("", ""),
        (" a  b\t\n c ", "a b c"),
        ("a\r\nBcc: x", "a Bcc: x"),
        ("a\x00\x1b[31mb\x7f", "a [31mb"),
        ("line\u2028separator", "line separator"),
        ("right\u202eto left", "right to left"),
        ("\ud800", ""),
        ("Zürich 実験", "Zürich 実験"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(st.text(), st.integers(0, 50))
def test_clean_is_one_short_visible_line(text: str, limit: int) -> None:
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit
    assert len(cleaned.splitlines()) <= 1


@given(st.text())
def test_ascii_is_printable(text: str) -> None:
    plain = ascii_only(text)
    assert plain.isascii()
    assert plain.isprintable()


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [("abcd", 4, "abcd"), ("abcde", 4, "ab.."), ("abc", 1, "."), ("abc", 0, ""), ("", 0, "")],
)
def test_cut(text: str, limit: int, expected: str) -> None:
    assert cut(text, limit) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eval-loss", "eval-loss"),
        ("Zürich", "Zurich"),
        ("実験", "??"),
        (":loss", "loss"),
        (": :loss", "loss"),
        ("\uff1aloss", "loss"),  # a wide colon, which becomes a plain one
        ("a\x00b", "a b"),
        ("", "?"),
        ("::", "?"),
        ("\n", "?"),
        ("\xa8", "?"),  # comes apart into a space and an accent
        ("x" * 2000, "x" * 1022 + ".."),
    ],
)
def test_label(text: str, expected: str) -> None:
    assert label(text) == expected


@given(st.text())
def test_any_text_makes_a_label_that_cloudwatch_takes(text: str) -> None:
    made = label(text)
    assert 1 <= len(made) <= 1024
    assert made.isascii()
    assert made.isprintable()
    assert made.strip()
    assert not made.startswith(":")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.14159e-9, "3.142e-09"),
        (128, "128"),
        (10**20, "100000000000000000000"),
        (0.0, "0"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        (True, "True"),
        ("a\nb", "a b"),
    ],
)
def test_number(value: float | str, text: str) -> None:
    assert number(value) == text
