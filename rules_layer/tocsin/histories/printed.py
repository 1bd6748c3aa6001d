"""Reader of printed logs: ``step 100 loss 2.31``, as common trainers write it.

A line that counts a step or an epoch, and the lines after it up to the next such line, are of that
step. Numbers have their names before them. A line that sums up an epoch after its batches, or has
other numbers again, such as those of each class, counts no step of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tocsin.histories.cells import number
from tocsin.histories.lines import Lines, on_screen
from tocsin.histories.names import has_phase, is_loss
from tocsin.histories.scalar import Note, Row

_LONGEST = 4000  # characters of a line that is looked at
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_VALUE = (
    rf"(?:tensor\()?(?P<value>{_NUMBER}%?|-?nan|[-+]?inf(?:inity)?)"
    r"(?=(?:ms|s|sec|secs|k|M|GB?|MB?)?(?![\w:]|\.\w))"
)

# What counts, and the name that it has in a row. The first that matches counts.
_COUNTERS: tuple[tuple[str, str], ...] = (
    (r"(?:global[ _]?step|num_updates|current_steps)", "step"),
    (r"(?:iter(?:ation)?s?|itr|step|steps|update|it)", "step"),
    (r"(?:epochs?|ep)", "epoch"),
    (r"(?:mini)?batch(?:es)?", "batch"),
    (r"(?:episode)", "epoch"),
)
_AFTER = rf"(?:\s*\((?:train|val|test)\))?['\"]?\s*[:=#]*\s*[\[(]*\s*({_NUMBER})"
_OF_COUNTERS = tuple(
    (re.compile(rf"(?<![\w/.]){words}{_AFTER}(?!\s*(?:it|s|ms)\b/)", re.IGNORECASE), name)
    for words, name in _COUNTERS
)
# 640/60000 after an epoch: the samples or batches of it that are done.
_DONE = re.compile(r"(?:^|[\s\[(:|])(\d+)\s*/\s*(\d+)(?=[\s\])]|\s*\[|$)")
_BOOSTED = re.compile(r"^\s*\[(\d+)\][\s:]")  # XGBoost, LightGBM
# CatBoost and darknet, or a number before the first name.
_NUMBERED = re.compile(r"^\s*(\d+)(?::\s|\s+(?=[A-Za-z][\w @/-]*[:=]))")

_PAIR = re.compile(
    r"(?P<name>[A-Za-z_][\w@/'#-]*(?:[ .][A-Za-z_@#(][\w@/'#()-]*){0,4}?)"
    r"(?:['\"]?\s*(?:[:=]|->)+|\s+is(?=\s))\s*" + _VALUE,
    re.IGNORECASE,
)
_MEASURE = (
    r"(?:(?:train(?:ing)?|val(?:id(?:ation)?)?|test|eval|avg|average|mean|total|lm|nll|ce|kl|"
    r"smoothed|running)[ _/]?)*(?:loss\w*|acc(?:uracy)?(?:@\d)?|ppl|perplexity|lr|error|rmse|mse|"
    r"mae|gnorm|grad[_ ]norm|time|data|bpc)"
)
_BARE = re.compile(rf"(?<![\w/])(?P<name>{_MEASURE})\s+(?:- )?{_VALUE}(?!\s*/)", re.IGNORECASE)
_DARKNET = re.compile(
    rf"^\s*(\d+): ({_NUMBER}|-?nan), ({_NUMBER}|-?nan) avg(?: loss)?, ({_NUMBER}) rate"
)
# A line of a block of baselines and Stable-Baselines3, which ends with a line of dashes.
_CELL = re.compile(rf"^\|\s+(?P<name>[A-Za-z][\w/ .-]*?)\s+\|\s+{_VALUE}\s+\|\s*$")
_PHASE = re.compile(
    r"^[^:=]*?(?<![\w/])(train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?|"
    r"eval(?:uat(?:ion|ing))?|dev)(?![\w/])",
    re.IGNORECASE,
)
_LEAD = re.compile(  # date, time, level, module
    r"^(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?Z?\]?|"
    r"[IWE]\d{4} [\d:.]+\s+\d+ \S+\]|[\s|:-]|\[?(?:INFO|DEBUG|WARNING|root|__main__)\]?:?)+"
)
_NO_NAME = {"eta", "total", "took", "seed", "size", "num", "of", "max", "at"}


class Printed:
    """The output of a training, or its log of lines."""

    form = "printed log"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = Lines(path)
        self._at: dict[str, float] = {}
        self._names: set[str] = set()  # that have a number there

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Row]:
        if self._lines.begins():
            self._at = {}
        block: dict[str, float | str] = {}
        for line in self._lines.read(growing=growing):
            if found := _CELL.match(line):
                block[found["name"]] = found["value"]
                continue
            if block:
                yield block
                block = {}
            counters, values = parsed(on_screen(line.replace("\b", "\r"))[:_LONGEST])
            if "done" in counters:  # of an epoch, or of the training
                counters["batch" if "epoch" in self._at else "step"] = counters.pop("done")
            if "epoch" in counters and counters["epoch"] != self._at.get("epoch"):
                self._at = {}
            if any(self._at.get(name) != at for name, at in counters.items()):
                self._names = set()
            self._at |= counters
            if values and self._at:
                again = not self._names.isdisjoint(values)
                sums_up = 0 < len(counters) < len(self._at)
                self._names |= values.keys()
                yield (
                    values
                    if again and (sums_up or not any(map(is_loss, values)))
                    else {
                        **self._at,
                        **values,
                    }
                )
        if block and not growing:
            yield block


def looks_printed(text: str) -> bool:
    """Return whether lines look like the log of a training: several that count have losses."""
    losses, counted = 0, False
    for line in text.splitlines():
        if found := _CELL.match(line):
            losses += is_loss(found["name"])
            continue
        counters, values = parsed(on_screen(line)[:_LONGEST])
        counted = counted or bool(counters)
        losses += counted and any(is_loss(name) for name in values)
    return losses >= 2


def parsed(line: str) -> tuple[dict[str, float], dict[str, float]]:
    """The counters of a line, and the numbers that have a name."""
    text = _LEAD.sub("", line)
    if found := _DARKNET.match(text):
        numbers = [number(group) for group in found.groups()]
        at, _, loss, rate = (each if each is not None else float("nan") for each in numbers)
        return {"step": at}, {"loss": loss, "lr": rate}
    counters: dict[str, float] = {}
    spans = []
    for pattern in (_BOOSTED, _NUMBERED):
        if found := pattern.match(text):
            counters["step"] = float(found[1])
            spans.append(found.span())
    for pattern, name in _OF_COUNTERS:
        if name not in counters and (found := pattern.search(text)):
            counters[name] = float(found[1])
            spans.append(found.span())
    if done := _done(text, spans):
        begins = text.lstrip(" [(").startswith(done) and "epoch" not in counters
        if begins:
            counters = {"done": float(done)}
        elif "batch" not in counters:
            counters["batch"] = float(done)
    values: dict[str, float] = {}
    phase = _PHASE.match(text)
    for found in (*_PAIR.finditer(text), *_BARE.finditer(text)):
        if any(low <= found.start("value") < high for low, high in spans):
            continue
        value = number(found["value"].lower())
        name = _name(found["name"], phase[1].lower() if phase else "", found.start())
        if value is not None and name and name not in values:
            values[name] = value
    return counters, values


def _done(text: str, spans: list[tuple[int, int]]) -> str | None:
    for found in _DONE.finditer(text):
        if int(found[2]) > 0 and not any(low <= found.start(1) < high for low, high in spans):
            return found[1]
    return None


def _is_path(word: str) -> bool:
    """Return whether a word of a line is rather the path of a file."""
    return word.count("/") > 1 or word.endswith((".cc", ".py", ".cpp"))


def _name(found: str, phase: str, at: int) -> str:
    """The name of a number; that of its line's phase comes first, if it has none itself."""
    words = found.strip(" -#'").replace("'s ", "/").split()
    while words and words[0].lower() in ("set", "net", "output", "epoch", "step", "iter", "info"):
        words = words[1:]
    if not words or words[-1].lower() in _NO_NAME or any(map(_is_path, words)):
        return ""
    name = " ".join(words)
    if not phase or has_phase(name) or name.lower() in ("lr", "learning rate", "time", "eta"):
        return f"{name}/loss" if name in ("learn", "test") else name
    return f"{phase}/{name}"
