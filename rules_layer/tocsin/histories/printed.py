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
from tocsin.histories.names import has_phase, is_loss, is_of_evaluation, is_phase
from tocsin.histories.printed_table import PrintedTable
from tocsin.histories.scalar import Note, Row

_LONGEST = 4000  # characters of a line that is looked at
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_VALUE = (
    rf"(?:tensor\()?(?P<value>{_NUMBER}%?|-?nan|[-+]?inf(?:inity)?)"
    r"(?=(?:ms|s|sec|secs|k|M|GB?|MB?|dB)?(?![\w:]|\.\w|\s*[-=]+>))"  # a change, as 0.5 -> 0.25
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
# Counters without a word at the beginning of a line, and their names in a row.
_WORDLESS = (
    (re.compile(r"^\s*\[(\d+)\][\s:]"), ("step",)),  # XGBoost, LightGBM
    # CatBoost and darknet, or a number before the first name.
    (re.compile(r"^\s*(\d+)(?::\s|\s+(?=[A-Za-z][\w @/-]*[:=]))"), ("step",)),
    (re.compile(r"^\s*\[(\d+),\s*(\d+)\](?=:?\s+[A-Za-z])"), ("epoch", "batch")),  # tutorials
)

_PAIR = re.compile(
    r"(?P<name>[A-Za-z_][\w@/'#+-]*(?:[ .][A-Za-z_@#(][\w@/'#()-]*){0,4}?)"
    r"(?:['\"]?\s*(?:[:=]|->)+|\s+is(?=\s))\s*" + _VALUE,
    re.IGNORECASE,
)
_MEASURE = (
    r"(?:(?:train(?:ing)?|val(?:id(?:ation)?)?|test|eval|avg|average|mean|total|lm|nll|ce|kl|"
    r"smoothed|running|top-?\d)[ _/]?)*(?:loss\w*|acc(?:uracy)?(?:@\d)?|(?:prec|err)@\d|ppl|"
    r"perplexity|lr|error|rmse|mse|mae|gnorm|grad[_ ]norm|time|data|bpc)"
)
_BARE = re.compile(rf"(?<![\w/])(?P<name>{_MEASURE}),?\s+(?:- )?{_VALUE}(?!\s*/)", re.IGNORECASE)
# Any other word before a number, in a line that counts and has a loss: "step 1 loss 2.5 foo 3".
_WORD = re.compile(
    rf"(?<![\w/.'-])(?P<name>(?:(?:train|val|valid|test|eval|avg|mean)[ _/])?[A-Za-z_][\w@/]*)\s+"
    rf"{_VALUE}(?!\s*/|\s+[A-Za-z]+\b\s*[,.)])",
    re.IGNORECASE,
)
# Lines that name their numbers otherwise: of darknet, and of DL4J, whose score is the loss.
_FORMS = (
    re.compile(
        rf"^\s*(?P<step>\d+): (?:{_NUMBER}|-?nan), (?P<loss>{_NUMBER}|-?nan) avg(?: loss)?, "
        rf"(?P<lr>{_NUMBER}) rate"
    ),
    re.compile(rf"\bScore at iteration (?P<step>\d+) is (?P<loss>{_NUMBER}|NaN)"),
)
# A line of a block of baselines and Stable-Baselines3, which ends with a line of dashes.
_CELL = re.compile(rf"^\|\s+(?P<name>[A-Za-z][\w/ .-]*?)\s+\|\s+{_VALUE}\s+\|\s*$")
_TITLE = re.compile(r"^\|\s+[A-Za-z][\w .-]*/\s+\|\s+\|\s*$")  # of a part of such a block
_PHASE = re.compile(
    r"^[^:=]*?(?<![\w/])(train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?|"
    r"eval(?:uat(?:ion|ing))?|dev)(?![\w/])(?!\s+[\d.]+\s?s(?:ec|\b))",  # "train 3.2s": how long
    re.IGNORECASE,
)
# A line without numbers, after which those of an evaluation come: "testing in eval mode".
_ANNOUNCES = re.compile(
    r"(?:\w+:)?\W*(?:(?:start(?:ing|ed)?|begin(?:ning)?|run(?:ning)?|performing|now|the)\W+)*"
    r"(eval(?:uat(?:e|ing|ion))?|validat(?:e|ing|ion)|test(?:ing)?)"
    r"(?:\W+(?:(?:in\W+)?eval\W+mode|mode|phase|results?|(?:the\W+)?model|"
    r"on\W+(?:the\W+)?(?:val\w*|dev|test)(?:\W+(?:set|data\w*))?))?\W*",
    re.IGNORECASE,
)
_TRAINS = re.compile(r"(?<![\w/])train(?:ing)?(?![\w/])", re.IGNORECASE)
# What is written otherwise than it is meant: TensorFlow's evaluations, and a number in a name.
_MEANT = (
    (re.compile(r"^(?:\w+:)?Saving dict for (?=global step)"), "eval "),
    (re.compile(r"(?<![\w@-])(top) (?=\d)", re.IGNORECASE), r"\1"),
)
# What follows was the best so far, and is printed where it was found.
_RESTATES = re.compile(
    r"\bnew best\b|\bsav(?:ed|ing)\b[^:=]*\bbest\b|\bbest (?:\w+ )?(?:model|checkpoint|weights)\b",
    re.IGNORECASE,
)
_BAR = re.compile(r"(\d+)/(\d+) (?:\[[=>. ]+\]|━)")  # of Keras
_LEAD = re.compile(  # date, time, level, module
    r"^(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?Z?\]?|"
    r"\[[\d./|, T-]*\d:\d\d[\d./:|, T-]*\]|"
    r"[IWE]\d{4} [\d:.]+\s+\d+ \S+\]|[\s|:-]|\[?(?:INFO|DEBUG|WARNING|root|__main__)\]?:?)+"
)
_TENSOR = re.compile(r"[\w/]+/\w+:\d+(?![\d.eE])")  # of TensorFlow: "bert/pooler/dense/bias:0"
_COUNTED = re.compile(r"(?:epoch|ep|step|iter)_?\d+", re.IGNORECASE)
_NOT_FIRST = {"set", "net", "output", "epoch", "step", "iter", "info"}
_NO_NAME = {
    "eta", "total", "took", "seed", "size", "num", "of", "max", "at", "in", "to", "for", "from",
    "by", "after", "and", "than", "with", "is", "was", "the", "until", "over", "on",
}  # fmt: skip


class Printed:
    """The output of a training, or its log of lines."""

    form = "printed log"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = Lines(path)
        self._at: dict[str, float] = {}
        self._names: set[str] = set()  # that have a number there
        self._evaluation = ""  # that the last line with a counter began: "Eval epoch: 4"
        self._announced = False  # by a line without numbers; they have not come yet
        self._table = PrintedTable()
        self._bar: Row | None = None  # of the last line, whose progress bar is not full
        self._bars = 0  # that were not full, in a row

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Row]:
        if self._lines.begins():
            self._at, self._bar, self._bars = {}, None, 0
        block: dict[str, float | str] = {}
        for line in self._lines.read(growing=growing):
            if found := _CELL.match(line):
                block[found["name"]] = found["value"]
                continue
            if block and _TITLE.match(line):
                continue
            if block:
                yield block
                block = {}
            shown = on_screen(line.replace("\b", "\r"))[:_LONGEST]
            if cells := self._table.row(shown):
                yield cells
            elif row := self._row(shown):
                yield from self._after_bar(row, shown)
        if not growing:
            yield from filter(None, (self._bar, block))

    def _row(self, line: str) -> Row | None:
        """The numbers of a line with the step that it belongs to; None if it has none."""
        counters, values = parsed(line)
        if "done" in counters:  # of an epoch, or of the training
            counters["batch" if "epoch" in self._at else "step"] = counters.pop("done")
        if "epoch" in counters and counters["epoch"] != self._at.get("epoch"):
            self._at = {}
        if any(self._at.get(name) != at for name, at in counters.items()):
            self._names = set()
        self._at |= counters
        if not counters and not values:
            self._listen(line)
        elif counters and not (values and self._announced):
            self._evaluation = "" if values else _evaluation_of(line)
        if values and self._evaluation:
            self._announced = False
            values = {
                name if has_phase(name) else f"{self._evaluation}/{name}": value
                for name, value in values.items()
            }
        if not values or not self._at:
            return None
        again = not self._names.isdisjoint(values)
        sums_up = 0 < len(counters) < len(self._at)
        self._names |= values.keys()
        alone = again and (sums_up or not any(map(is_loss, values)))
        return values if alone else {**self._at, **values}

    def _listen(self, line: str) -> None:
        """Notice where a line without numbers says that an evaluation begins, or training."""
        text = _LEAD.sub("", line)
        if found := _ANNOUNCES.fullmatch(text):
            self._evaluation, self._announced = found[1].lower(), True
        elif _TRAINS.search(text):
            self._evaluation, self._announced = "", False

    def _after_bar(self, row: Row, line: str) -> Iterator[Row]:
        """The rows up to this line. The last update of a bar before its full one is left out, if
        the log has no other."""
        bar = _BAR.search(line)
        full = bar is None or int(bar[1]) >= int(bar[2])
        if self._bar is not None and not (bar and full and self._bars == 1):
            yield self._bar
        self._bars = 0 if full else self._bars + 1
        self._bar = None if full else row
        if full:
            yield row


def looks_printed(text: str) -> bool:
    """Return whether lines look like the log of a training: a loss that comes again at another
    step or with another value, or two losses in a line that counts.

    A configuration that is printed twice has numbers with names of losses, too.
    """
    at: dict[str, float] = {}
    counters: dict[str, float] = {}
    seen: dict[str, tuple[set[float], set[tuple[float, ...]]]] = {}
    table, rows = PrintedTable(), 0
    for line in text.splitlines():
        rows += table.row(on_screen(line)[:_LONGEST]) is not None
        if rows > 1:
            return True
        if found := _CELL.match(line):
            counters, values = {}, {found["name"]: float(found["value"].rstrip("%"))}
            at["cell"] = at.get("cell", 0.0) + 1
        else:
            counters, values = parsed(on_screen(line)[:_LONGEST])
            at |= counters
        losses = {name: value for name, value in values.items() if at and is_loss(name)}
        if counters and len(losses) > 1:
            return True
        for name, value in losses.items():
            numbers, steps = seen.setdefault(name, (set(), set()))
            numbers.add(value)
            steps.add(tuple(at.values()))
            if len(numbers) > 1 or len(steps) > 2:
                return True
    return False


def parsed(line: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the counters of a line, and the numbers that have a name."""
    text = _LEAD.sub("", line)
    for pattern, meant in _MEANT:
        text = pattern.sub(meant, text)
    for form in _FORMS:
        if found := form.search(text):
            named = {name: float(value) for name, value in found.groupdict().items()}
            return {"step": named.pop("step")}, named
    counters: dict[str, float] = {}
    spans = []
    for pattern, names in _WORDLESS:
        if found := pattern.match(text):
            counters |= dict(zip(names, map(float, found.groups()), strict=True))
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
    phase = _PHASE.match(text)
    restates = _RESTATES.search(text)
    known = restates.start() if restates else len(text)
    text = _TENSOR.sub(lambda tensor: " " * len(tensor[0]), text)
    values: dict[str, float] = {}
    others: dict[str, float] = {}  # that count beside a loss
    for pattern, into in ((_PAIR, values), (_BARE, values), (_WORD, others)):
        for found in pattern.finditer(text):
            at = found.start("value")
            if at > known or any(low <= at < high for low, high in spans):
                continue
            value = number(found["value"].lower())
            name = _name(found["name"], phase[1].lower() if phase else "")
            if value is not None and name and name not in values:
                spans.append(found.span("value"))
                into[name] = value
    if counters and any(map(is_loss, (*values, *others))):
        values |= {name: value for name, value in others.items() if not is_phase(name)}
    return counters, values


def _evaluation_of(line: str) -> str:
    """Return the phase of an evaluation that a line names; "" for none, and for training."""
    found = _PHASE.match(_LEAD.sub("", on_screen(line)))
    return found[1].lower() if found and is_of_evaluation(found[1]) else ""


def _done(text: str, spans: list[tuple[int, int]]) -> str | None:
    for found in _DONE.finditer(text):
        if int(found[2]) > 0 and not any(low <= found.start(1) < high for low, high in spans):
            return found[1]
    return None


def _is_path(word: str) -> bool:
    """Return whether a word of a line is rather the path of a file."""
    return word.count("/") > 1 or word.endswith((".cc", ".py", ".cpp"))


def _name(found: str, phase: str) -> str:
    """The name of a number; that of its line's phase comes first, if it has none itself."""
    words = found.strip(" -#'").replace("'s ", "/").split()
    while words and (words[0].lower() in _NOT_FIRST or _COUNTED.fullmatch(words[0])):
        words = words[1:]
    if not words or words[-1].lower() in _NO_NAME or any(map(_is_path, words)):
        return ""
    name = " ".join(words)
    if not phase or has_phase(name) or name.lower() in ("lr", "learning rate", "eta"):
        return f"{name}/loss" if name in ("learn", "test") else name
    return f"{phase}/{name}"
