from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import SAGEMAKER, Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation

_NO_TOKENS = re.compile(r"(?i)mask|type|segment|position|label")
_TOKENS = re.compile(r"(?i)embedding\d*_input_0$")  # in MXNet tokens are real numbers


@register
@dataclass(frozen=True)
class NLPSequenceRatio(Rule):
    """Too large a part of the input sequences is one token, such as padding.

    Fires when the share of a token of ``token_values`` in a saved batch is above its threshold, the
    entry at the same position in ``token_thresholds_percent``. Amazon's documents do not say
    whether several batches are judged together. Here each batch is judged by itself, since the
    model computes one at a time; ``for_steps`` requires several in a row. Shares of 50 % and more
    are usual if sequences are short and differ in length, so in profile ``recommended`` the rule
    watches only if a watch file names it.

    Parameters
    ----------
    tensor_regex: which tensors are sequences. By default they are the inputs of embeddings, and
        inputs of integers with one or two dimensions, except those with a name like mask, type,
        segment, position or label.
    token_values: tokens to count, as numbers.
    token_thresholds_percent: the largest share of each of them, in %.

    Example: batches padded to 512 tokens, of which 480 are the padding token 0.
    """

    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "Every batch is padded to the longest sequence of the data, batches have both long and "
        "short sequences, or a wrong vocabulary turns words into the unknown token."
    )
    advice: ClassVar[str] = (
        "Put sequences of similar length into a batch, pad to the longest of the batch, cut or "
        "pack sequences, and check that the vocabulary is the tokenizer's."
    )

    tensor_regex: tuple[str, ...] = ()
    token_values: tuple[float, ...] = (0.0,)
    token_thresholds_percent: tuple[Annotated[float, Meta(ge=0, le=100)], ...] = (50.0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        tokens, percents = len(self.token_values), len(self.token_thresholds_percent)
        if not tokens or tokens != percents:
            raise ValueError(
                f"token_values has {tokens} and token_thresholds_percent {percents} numbers, but "
                "both must have the same number of them, at least 1"
            )
        for value in self.token_values:
            if not math.isfinite(value):
                raise ValueError(f"token_values has {value}, but must have finite numbers")

    def reads(self) -> Reads:
        read = Read((Role.INPUT,), values=True)
        return Reads({"sequences": read.explicitly((), self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [
            (100 * float(np.count_nonzero(value == token)) / value.size, token, most, tensor)
            for tensor in step.tensors["sequences"]
            if (value := tensor.value) is not None and value.size and self._watches(tensor)
            for token, most in zip(self.token_values, self.token_thresholds_percent, strict=True)
        ]
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no token sequence with its values")
        percent, token, most, tensor = max(known, key=lambda found: found[0] - found[2])
        if percent <= most:
            return state, measured(HEALTHY, percent, most)
        detail = (
            f"{percent:.3g} % of the tokens of {tensor.name} are {token:g}, more than {most:g} %"
        )
        evidence = {"percent": percent, "token": token, "threshold_percent": most}
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
        return state, measured(found, percent, most)

    def _watches(self, tensor: Tensor) -> bool:
        value = tensor.value
        if value is None or value.dtype.kind not in "iuf":
            return False
        integers = value.dtype.kind in "iu" and value.dtype.itemsize > 1
        tokens = integers and value.ndim <= 2 and not _NO_TOKENS.search(tensor.name)
        return bool(self.tensor_regex or tokens or _TOKENS.search(tensor.name))
