"""A network that is trained, and its blocks, as Gluon calls back about them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mxnet import autograd, gluon
from mxnet.base import MXNetError
from mxnet.ndarray import NDArray
from tocsin.model import Mode
from tocsin.tensors import Storage, collected, named

from tocsin_hooks import Hook
from tocsin_hooks.ending import finished_after
from tocsin_hooks.guard import Guard, MeantForTraining, guarded
from tocsin_hooks.mxnet.blocks import activation, arrays, collection_of, inside, rank_and_size
from tocsin_hooks.plan import CapturePlan

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger("tocsin")

_ENDS = ("input", "output")
_trouble = attrgetter("_hook.trouble")


@dataclass(frozen=True)
class BlockEnd:
    """The collection and kind of a block's inputs or outputs, where the names do not say."""

    collection: str | tuple[str, ...] | None = None
    kind: str | None = None


def _of_activation(kind: str | None, end: str) -> BlockEnd:
    """For an activation of that kind, or with None for another block."""
    if kind is None:
        return BlockEnd()
    own = f"{kind}_{end}"  # relu_output and the like are collections in SageMaker's rules
    return BlockEnd((*((own,) if collected(own) else ()), f"activation_{end}s"), kind)


def _of_block(hook: GluonHook, block: Any, *_: object) -> str:
    return f"a call of {block.name} is not captured"


class TrainingFailedError(MeantForTraining, MXNetError):
    """An operation of the training has failed in the background. MXNet says so once, to the first
    who waits for its result: were that us and we silent, the training would go on with garbage."""


class GluonHook:
    """Captures a training of a Gluon network. ``GluonHook.attach`` makes one.

    Every forward pass of the network begins a step and ends the previous one. Its mode is TRAIN
    inside ``autograd.record()`` (or ``train_mode``), else EVAL. Parts of a batch on several devices
    belong to one step; the part of the first device is captured. Gradients and the updated
    parameters are captured at the end of a training step, so call ``end_step`` before you set
    gradients to zero yourself, as ``grad_req="add"`` requires.

    Names are smdebug's: ``dense0_weight``, ``gradient/dense0_weight``,
    ``relu0_input_0``, ``relu0_output_0``, ``softmaxcrossentropyloss0_output_0``, and for the second
    call of a block in a step ``relu0_output_0_1``. A hybridized network is one operation: the hook
    cannot see the blocks inside it.
    """

    def __init__(
        self, hook: Hook, net: Any, losses: Iterable[Any], trainer: Any, own: bool
    ) -> None:
        self._hook = hook
        self._net = net
        self._losses = tuple(losses)
        self._trainer = trainer
        self._own = own
        self._handles: list[Any] = []
        self._mode = Mode.TRAIN
        self._devices: list[Any] = []  # that the current step has been on
        self._calls = Counter[str]()  # of each block, in the current step
        self._reported = False
        self.evaluates_parameters = False
        """Whether parameters are captured at the end of evaluation steps, too, as smdebug does."""

    @classmethod
    def attach(
        cls,
        net: Any,
        out: str | Path | Storage | Hook | None = None,
        *,
        loss: Any = None,
        trainer: Any = None,
        **options: Any,
    ) -> GluonHook:
        """Watch ``net``, a Block, from its next forward pass on.

        Parameters
        ----------
        out: the run: a folder, ``s3://bucket/prefix``, a Storage; or a Hook, used as it is and not
            closed. None: where SageMaker's ``debughookconfig.json`` says, else ``TOCSIN_RUN``.
        loss: the loss block or blocks, whose inputs are predictions and labels. Losses that are
            computed otherwise are for ``record_loss``.
        trainer: the Trainer, for its learning rate.
        options: those of ``Hook``. Under Horovod each rank is a worker.

        Raises TypeError for an option that there is not, ValueError or OSError for a watch file
        with an error, and nothing else.

        Example
        -------
        >>> hook = GluonHook.attach(net, "s3://bucket/jobs/j1", loss=loss, trainer=trainer)
        """
        if isinstance(out, Hook):
            hook = out
        else:
            rank, size = rank_and_size()
            hook = Hook(out, **{"worker": f"worker_{rank}", "num_workers": size, **options})
        losses = loss if isinstance(loss, list | tuple) else [] if loss is None else [loss]
        made = cls(hook, net, losses, trainer, own=hook is not out)
        made._attach()
        return made

    @property
    def hook(self) -> Hook:
        """The hook underneath: ``hook.save`` for more tensors of the current step, ``stats``."""
        return self._hook

    @property
    def should_stop(self) -> bool:
        """Return whether a stop was requested; see ``Hook.should_stop``."""
        return self._hook.should_stop

    @guarded(_trouble, lambda self, value, name="loss": f"loss {name!r} is not captured")
    def record_loss(self, value: Any, name: str = "loss") -> None:
        """Capture a loss, an NDArray or a number, that no loss block computes."""
        self._record(name, value)

    @guarded(_trouble, "a step is not captured")
    def begin_step(self, inputs: Any) -> None:
        """Begin a step with a forward pass that is under way, for hooks that are attached in it."""
        self._begin(inputs)

    @guarded(_trouble, "the end of a step is not captured")
    def end_step(self) -> None:
        """End the current step now, instead of at the next forward pass."""
        self._end()

    @guarded(_trouble, "a hook is still attached")
    def detach(self) -> None:
        """End the current step and leave the network as it was."""
        self.end_step()
        while self._handles:
            with Guard(self._hook.trouble, "a hook is still attached"):
                self._handles.pop().detach()

    def close(self, *, finished: bool | None = None) -> None:
        """Detach, and close the hook unless it was there before; see ``Hook.close``."""
        self.detach()
        if self._own:
            self._hook.close(finished=finished)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(finished=finished_after(error))

    def __deepcopy__(self, memo: dict[int, Any]) -> GluonHook:
        """For a network that is copied with its hooks: the copy is not watched."""
        return type(self)(self._hook, None, (), None, own=False)

    @guarded(_trouble, "the network is not watched")
    def _attach(self) -> None:
        self._handles.append(self._net.register_forward_pre_hook(self._before))
        self._handles.append(self._net.register_forward_hook(self._after_net))
        for block in {id(each): each for each in (*inside(self._net), *self._losses)}.values():
            loss = block in self._losses or isinstance(block, gluon.loss.Loss)
            after = self._after_loss if loss else self._after_block
            self._handles.append(block.register_forward_hook(after))

    # What Gluon calls.

    @guarded(_trouble, "a step is not captured")
    def _before(self, net: Any, inputs: Any) -> None:
        if net is self._net:
            self._begin(inputs)

    @guarded(_trouble, _of_block)
    def _after_net(self, net: Any, inputs: Any, outputs: Any) -> None:
        self._seen(net, inputs, outputs, BlockEnd("inputs"), BlockEnd("outputs"))

    @guarded(_trouble, _of_block)
    def _after_block(self, block: Any, inputs: Any, outputs: Any) -> None:
        kind = activation(block) if self._hook.saving else None
        self._seen(block, inputs, outputs, *(_of_activation(kind, each) for each in _ENDS))

    @guarded(_trouble, _of_block)
    def _after_loss(self, block: Any, inputs: Any, outputs: Any) -> None:
        self._seen(block, inputs, outputs, BlockEnd(), BlockEnd("losses"))

    # What is done then.

    def _begin(self, inputs: Any) -> None:
        first = next(arrays(inputs), None)
        if first is None:
            return
        mode = Mode.TRAIN if autograd.is_training() else Mode.EVAL
        if self._devices and mode is self._mode and first.context not in self._devices:
            self._devices.append(first.context)  # the same step, with another part of its batch
            return
        self._end()
        self._mode, self._devices = mode, [first.context]
        self._hook.begin(mode)

    def _end(self) -> None:
        trains = self._mode is Mode.TRAIN
        if self._devices and (trains or self.evaluates_parameters) and self._hook.saving:
            self._parameters()
            self._report()
        self._devices = []
        self._calls.clear()
        self._hook.end()

    def _seen(self, block: Any, inputs: Any, outputs: Any, *ends: BlockEnd) -> None:
        if self._devices and self._hook.saving:
            self._call(block.name, inputs, outputs, *ends)

    def _call(self, block: str, inputs: Any, outputs: Any, *ends: BlockEnd) -> None:
        found = [list(arrays(values)) for values in (inputs, outputs)]
        if not found[1] or found[1][0].context in self._devices[1:]:
            return
        again = f"_{self._calls[block]}" if block in self._calls else ""
        self._calls[block] += 1
        for values, which, end in zip(found, _ENDS, ends, strict=True):
            for index, value in enumerate(values):
                name = f"{block}_{which}_{index}"
                role, kind = named(name) or (None, None)  # the first call's name says more
                plan = self._hook.plan(
                    name + again,
                    end.collection,
                    role=None if end.collection else role,
                    kind=end.kind or kind,
                )
                self._capture(plan, value)

    def _parameters(self) -> None:
        plan = self._hook.plan
        for name, parameter in self._net.collect_params().items():
            if weight := plan(name, collection_of(name)):
                with Guard(self._hook.trouble, "%s is not captured", name):
                    self._first(weight, parameter.list_data)
            if parameter.grad_req != "null" and (gradient := plan(f"gradient/{name}", "gradients")):
                with Guard(self._hook.trouble, "the gradient of %s is not captured", name):
                    self._first(gradient, parameter.list_grad)
        if self._trainer is not None and (rate := plan("learning_rate", "learning_rates")):
            self._hook.capture(rate, self._trainer.learning_rate)

    def _first(self, plan: CapturePlan, copies: Callable[[], list[Any]]) -> None:
        """Capture the first of a parameter's copies, which are one for each device."""
        self._capture(plan, copies()[0])

    def _record(self, name: str, value: Any) -> None:
        if plan := self._hook.plan(name, "losses", asked=True):
            if isinstance(value, NDArray):
                self._capture(plan, value)
            else:
                self._hook.capture(plan, value)

    def _capture(self, plan: CapturePlan | None, value: Any) -> None:
        if plan is not None:
            try:
                value.wait_to_read()  # what is still being computed is the training's own time
            except MXNetError as error:
                raise TrainingFailedError(*error.args) from error
            with self._hook.measured():
                self._hook.capture(plan, value.asnumpy())

    def _report(self) -> None:
        """Say once which blocks work without being called."""
        blocks = [] if self._reported else [block.name for block in inside(self._net)]
        self._reported = True
        if hidden := [name for name in blocks if name not in self._calls]:
            _log.warning(
                "%d of %d blocks are not called (inside a hybridized network): their inputs and "
                "outputs are not captured (%s …)",
                len(hidden),
                len(blocks),
                hidden[0],
            )
