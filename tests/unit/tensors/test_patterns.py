from __future__ import annotations

import pytest
from tocsin.tensors import BadPattern, search


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("^(?!gradient).*weight", "fc.weight", True),
        ("^(?!gradient).*weight", "gradient/fc.weight", False),
        ("[Ll]oss_(?!input).*output", "CrossEntropyLoss_output_0", True),
        ("loss", "a loss b", True),  # anywhere, as re.search
        ("", "anything", True),
        (".", "", False),
        ("é$", "weird name é", True),
    ],
)
def test_search(pattern, text, expected):
    assert search(pattern, text) is expected


@pytest.mark.parametrize("pattern", ["(", "*a", "[z-a]", "(?P<", "a" * 1001])
def test_what_does_not_compile(pattern):
    with pytest.raises(BadPattern) as refused:
        search(pattern, "a")
    assert "\n" not in str(refused.value)


def test_what_does_not_end_is_ended():
    """Without a limit this takes minutes: each letter more takes 1.6 times as long."""
    with pytest.raises(BadPattern, match="takes longer"):
        search("(a|aa)+$", "a" * 40 + "!")
