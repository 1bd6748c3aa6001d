"""Data sets that ship in packages, and texts that lie in this repository or in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray

Array = NDArray[Any]
Task = Literal["classes", "numbers", "tokens"]

LICENSE = Path(__file__).resolve().parents[3] / "LICENSE"
WINDOW = 16
PATCHES = 1600


@dataclass(frozen=True, eq=False)
class Source:
    """A data set as it comes, all of it. ``x`` is (n, features), (n, channels, height, width), or
    (n, WINDOW) tokens; ``y`` is (n,) classes, (n, 1) numbers, or (n, WINDOW) tokens.

    The first ``head`` rows may be trained on and the others not; None: it does not matter.
    """

    x: Array
    y: Array
    task: Task
    outputs: int
    head: int | None = None


def source(name: str) -> Source:
    """The data set of that name."""
    return SOURCES[name]()


def _digits() -> Source:
    found: Any = sklearn.datasets.load_digits()
    return Source(found.images[:, None].astype(np.float32), found.target, "classes", 10)


def _patches() -> Source:
    """Which photograph, and which half of it, is a patch of 6 by 6 pixels from?"""
    images = [image[::2, ::2] for image in sklearn.datasets.load_sample_images().images]
    draw = np.random.default_rng(0)
    x, y = np.empty((PATCHES, 3, 6, 6), np.float32), np.empty(PATCHES, np.int64)
    for number in range(PATCHES):
        image = int(draw.integers(2))
        top, left = (int(draw.integers(size - 6)) for size in images[image].shape[:2])
        x[number] = images[image][top : top + 6, left : left + 6].transpose(2, 0, 1)
        y[number] = 2 * image + (top + 3 > images[image].shape[0] / 2)
    return Source(x, y, "classes", 4)


def _classes(load: Callable[[], Any]) -> Source:
    found = load()
    return Source(found.data.astype(np.float32), found.target, "classes", len(found.target_names))


def _diabetes() -> Source:
    found: Any = sklearn.datasets.load_diabetes(scaled=False)
    return Source(found.data.astype(np.float32), _column(found.target), "numbers", 1)


def _feature(load: Callable[[], Any], column: int) -> Source:
    """To tell one feature from the others."""
    data = load().data.astype(np.float32)
    return Source(np.delete(data, column, axis=1), _column(data[:, column]), "numbers", 1)


def _column(values: Array) -> Array:
    return values.astype(np.float32).reshape(-1, 1)


def _text(text: str) -> Source:
    """The next character, for every character of a window; the last fifth is not trained on."""
    alphabet, codes = np.unique(np.array(list(" ".join(text.split()))), return_inverse=True)
    border = len(codes) * 4 // 5
    starts = np.concatenate(
        [np.arange(0, border - WINDOW, 3), np.arange(border, len(codes) - WINDOW - 1, 7)]
    )
    windows = codes[starts[:, None] + np.arange(WINDOW + 1)].astype(np.int64)
    head = int(np.count_nonzero(starts < border - WINDOW))
    return Source(windows[:, :-1], windows[:, 1:], "tokens", len(alphabet), head)


def _descriptions() -> str:
    """What scikit-learn says of its data sets."""
    folder = Path(sklearn.datasets.__file__).parent / "descr"
    return " ".join(path.read_text("utf-8") for path in sorted(folder.glob("*.rst")))[:16_000]


SOURCES: dict[str, Callable[[], Source]] = {
    "cancer": lambda: _classes(sklearn.datasets.load_breast_cancer),
    "cancer area": lambda: _feature(sklearn.datasets.load_breast_cancer, 3),
    "descriptions": lambda: _text(_descriptions()),
    "diabetes": _diabetes,
    "digits": _digits,
    "iris": lambda: _classes(sklearn.datasets.load_iris),
    "iris width": lambda: _feature(sklearn.datasets.load_iris, 3),
    "license": lambda: _text(LICENSE.read_text("utf-8")),
    "patches": _patches,
    "wine": lambda: _classes(sklearn.datasets.load_wine),
    "wine proline": lambda: _feature(sklearn.datasets.load_wine, 12),
}
