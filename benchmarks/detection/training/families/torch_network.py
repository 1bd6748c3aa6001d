"""A PyTorch module as the training loop sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from benchmarks.detection.training.data import Array
from benchmarks.detection.training.network import Activation

_KINDS: dict[type[nn.Module], str] = {nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid"}


class TorchNetwork:
    """Its parameters are the module's own memory, its activations those of ReLU, Tanh, Sigmoid."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._parameters = {name: p.detach().numpy() for name, p in module.named_parameters()}
        self._activations: dict[str, Activation] = {}
        self._outputs = torch.empty(0)
        for name, child in module.named_modules():
            if kind := _KINDS.get(type(child)):
                child.register_forward_hook(self._remember(name.replace(".", "_"), kind))

    @property
    def parameters(self) -> Mapping[str, Array]:
        return self._parameters

    @property
    def activations(self) -> Mapping[str, Activation]:
        return self._activations

    def forward(self, x: Array, *, train: bool) -> Array:
        self._module.train(train)
        with torch.set_grad_enabled(train):
            self._outputs = self._module(torch.from_numpy(x))
        outputs: Array = self._outputs.detach().numpy()
        return outputs

    def backward(self, slope: Array) -> dict[str, Array]:
        self._module.zero_grad()
        self._outputs.backward(torch.from_numpy(slope))  # type: ignore[no-untyped-call]  # torch's
        return {
            name: p.grad.numpy()
            for name, p in self._module.named_parameters()
            if p.grad is not None
        }

    def _remember(self, name: str, kind: str) -> Any:
        def hook(_: nn.Module, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            self._activations[name] = Activation(
                kind, given[0].detach().numpy(), output.detach().numpy()
            )

        return hook
