"""The table of the cost of Keras' callback."""

from __future__ import annotations

from benchmarks.keras import table


def test_ratios_are_those_of_the_same_rounds() -> None:
    seconds = {"no callback": [1.0, 10.0, 1.0, 1.0], "default rules": [1.2, 12.0, 1.2, 1.2]}
    assert table("jax", seconds) == [
        "Keras on jax",
        "  no callback           20.00 ms",
        "  default rules         24.00 ms   1.200×    1.200–1.200",
    ]


def test_one_round_is_a_table_too() -> None:
    assert table("torch", {"no callback": [1.0], "default rules": [2.0]})[2].endswith("2.000–2.000")
