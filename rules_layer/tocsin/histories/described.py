"""The line that says how a history was read, and what was left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tocsin.histories.names import is_loss, is_of_evaluation, is_score
from tocsin.histories.scalar import Reader
from tocsin.histories.trainings import Training
from tocsin.model import Role
from tocsin.words import clean

_MOST_NAMES = 4
_MOST_LEFT_OUT = 8
_MOST_TRAININGS = 3
_LONGEST_NAME = 40


def described(
    reader: Reader, training: Training, found: Sequence[Training], roles: Mapping[str, Role]
) -> str:
    """Return one line for ``training``, which is one of ``found``."""
    form, counter, left_out = reader.describe()
    names = dict.fromkeys(scalar.name for scalar in training.scalars)
    losses = [name for name in names if roles[name] is Role.LOSS]
    evaluations = [name for name in names if name not in losses and is_loss(name)]
    scores = [name for name in names if is_score(name)]
    beside = [name for name in names if roles[name] not in (Role.LOSS, Role.METRIC)]
    read = {*losses, *evaluations, *scores, *beside}
    stand = bool(losses) and all(is_of_evaluation(name) for name in losses)
    parts = (
        _steps({scalar.step for scalar in training.scalars}, counter),
        _list("loss:" if len(losses) == 1 else "losses:", losses, _MOST_NAMES),
        _list("validation loss:", evaluations, _MOST_NAMES),
        _list("metrics:", scores, _MOST_NAMES),
        _list("also read:", beside, _MOST_NAMES),
        _list("not used by any rule:", [name for name in names if name not in read], _MOST_NAMES),
        "no training loss: the rules judge the validation loss instead" if stand else "",
        _of_several(training, found),
        _list("resumed at step", [f"{step:,}" for step in training.resumed], _MOST_NAMES)
        + (", earlier values from there on are left out" if training.resumed else ""),
        _list("left out:", [*left_out, *training.left_out], _MOST_LEFT_OUT, "; "),
    )
    return f"{reader.path}: read as {form}: {'; '.join(filter(None, parts))}"


def numbered(trainings: Sequence[Training], without: Training | None = None) -> list[str]:
    """Return the trainings as ``--training`` names them: numbers from 1 on, with their names."""
    return [
        f"{at} ({clean(training.name, _LONGEST_NAME)})" if training.name else str(at)
        for at, training in enumerate(trainings, 1)
        if training is not without
    ]


def _steps(steps: Collection[int], counter: str) -> str:
    by = f" by {clean(counter, 60)}" if counter else ""
    return f"{_count(len(steps), 'step')}{by} ({min(steps)}–{max(steps)})"


def _of_several(training: Training, found: Sequence[Training]) -> str:
    if len(found) == 1:
        return ""
    others = numbered(found, without=training)
    at = next(at for at, each in enumerate(found, 1) if each is training)
    shown = _list("--training", others, _MOST_TRAININGS, " or ")
    return f"training {at} of {len(found)} (others: {shown})"


def _list(what: str, names: Sequence[str], most: int, between: str = ", ") -> str:
    """The first names; an empty text without any."""
    if not names:
        return ""
    more = f"{between}{len(names) - most} more" if len(names) > most else ""
    shown = between.join(clean(name, 100) for name in names[:most])
    return f"{what} {shown}{more}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
