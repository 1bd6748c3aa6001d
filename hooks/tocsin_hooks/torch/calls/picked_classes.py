"""Classes that a script picks by itself, as where it computes a log-likelihood by hand."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812 - everybody calls it so

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.recorded_call import RecordedCall


def picked_classes(call: RecordedCall) -> LossCall | None:
    """The loss that a script computes by hand, if it picks one score of each sample by ``gather``:
    that of a log-likelihood."""
    names = ("input", "dim", "index")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    if call.name != "gather" or set(given) != set(names):
        return None
    scores, index = given["input"], given["index"]
    axis = given["dim"] % max(1, scores.dim())
    if scores.dim() < 2 or index.dim() != scores.dim() or index.shape[axis] != 1:
        return None
    prediction, target = scores.movedim(axis, 1), index.movedim(axis, 1)[:, 0]
    if prediction.shape[0] != target.shape[0] or prediction.shape[2:] != target.shape[1:]:
        return None
    arguments = {"input": prediction, "target": target}
    return LossCall(F.nll_loss, arguments, None, script_line())
