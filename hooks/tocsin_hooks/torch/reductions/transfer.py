"""Results on their way from a device to the host: one copy per step, without waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tocsin.tensors import Captured

from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.torch.autograd import copy_all

Finish = Callable[[], Iterable[tuple[CapturePlan, Captured]]]

_BY_ITSELF = 1 << 20  # bytes of a tensor of which the device shall hold no second copy
_ALIGNED = 16


class Box:
    """A tensor that the device sends; ``tensor`` is it on the host, once it has arrived."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class Parcel:
    """The content that a device sends for one call: tensors as they are when it is sealed."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.nbytes = 0
        self._boxes: list[Box] = []
        self._labels: list[tuple[Box, int, int, Any, Any]] = []
        self._content: Any = None
        self._stream: Any = None
        self._sealed: Any = None

    def add(self, tensor: Any) -> Box:
        self._boxes.append(Box(tensor))
        return self._boxes[-1]

    def seal(self) -> None:
        """Copy everything to a place of its own. Nothing of what was added is held afterwards."""
        places, tensors, end = [], [], 0
        for box in self._boxes:
            tensor = box.tensor.contiguous()
            nbytes = tensor.numel() * tensor.element_size()
            self.nbytes += nbytes
            if nbytes > _BY_ITSELF:
                box.tensor = _host(tensor.shape, tensor.dtype, self.device)
                box.tensor.copy_(tensor, non_blocking=True)
                continue
            box.tensor = None
            self._labels.append((box, end, nbytes, tensor.dtype, tensor.shape))
            if nbytes:
                places.append((end, nbytes))
                tensors.append(tensor.view(-1).view(torch.uint8))
                end += -(-nbytes // _ALIGNED) * _ALIGNED
        self._content = torch.empty(end, dtype=torch.uint8, device=self.device)
        if tensors:
            copy_all([self._content[at : at + length] for at, length in places], tensors)
        self._boxes.clear()
        self._stream = _stream(self.device)
        if self._stream is not None:
            self._sealed = self._stream.record_event()

    def hand_over(self) -> Any:
        """Return the content that the current stream sends, without what is sent separately."""
        stream = _stream(self.device)
        if stream != self._stream:
            stream.wait_event(self._sealed)
            self._content.record_stream(stream)
        content, self._content = self._content, None
        return content

    def unpack(self, content: Any) -> None:
        """Give each box its tensor, from what has arrived."""
        for box, start, nbytes, dtype, shape in self._labels:
            box.tensor = content[start : start + nbytes].view(dtype).view(shape)


class _Shipment:
    """The parcels of one device, in one copy."""

    def __init__(self, parcels: Sequence[Parcel]) -> None:
        self._parcels = parcels
        device = parcels[0].device
        contents = [parcel.hand_over() for parcel in parcels]
        self._lengths = [len(content) for content in contents]
        content = contents[0] if len(contents) == 1 else torch.cat(contents)
        self._arrived: Any = None
        self._content = content
        if device.type == "cuda":
            self._content = _host(content.shape, content.dtype, device)
            self._content.copy_(content, non_blocking=True)
            self._arrived = torch.cuda.Event(blocking=True)  # waits without keeping a core busy
            self._arrived.record(_stream(device))

    def open(self) -> None:
        """Wait until it has arrived, and unpack it."""
        if self._arrived is not None:
            self._arrived.synchronize()
        for parcel, content in zip(self._parcels, self._content.split(self._lengths), strict=True):
            parcel.unpack(content)


@dataclass(eq=False)
class Reduced:
    """Tensors whose numbers are being computed; ``nbytes`` is the memory that it holds."""

    nbytes: int = 0
    parcels: list[Parcel] = field(default_factory=list)
    finishes: list[Finish] = field(default_factory=list)
    waited: Callable[[], None] = lambda: None
    """Called before each wait for a device."""
    _shipments: list[_Shipment] | None = None

    def send(self) -> None:
        """Send what is on a device to the host, in one copy for each device. Does not wait."""
        by_device: dict[Any, list[Parcel]] = {}
        for parcel in self.parcels:
            by_device.setdefault(parcel.device, []).append(parcel)
        self._shipments = [_Shipment(parcels) for parcels in by_device.values()]

    def finish(self) -> list[tuple[CapturePlan, Captured]]:
        """Wait for the device and give what was captured: once, and in any thread."""
        if self._shipments is None:
            self.send()
        for shipment in self._shipments or ():
            self.waited()
            shipment.open()
        return [captured for finish in self.finishes for captured in finish()]


def gathered(parts: Sequence[Reduced]) -> Reduced:
    """Return all parts of a step as one, which is on its way to the host in one copy per device.

    Example:
        >>> early, late = reducer.reduce(activations), reducer.reduce(weights)
        >>> whole = gathered([early, late])
        >>> hook.put_later(whole.finish, whole.nbytes)
    """
    whole = Reduced(
        sum(part.nbytes for part in parts),
        [parcel for part in parts for parcel in part.parcels],
        [finish for part in parts for finish in part.finishes],
    )
    if parts:
        whole.waited = parts[0].waited
    whole.send()
    return whole


def _host(shape: Any, dtype: Any, device: Any) -> Any:
    """Memory that a device can copy to while the host goes on."""
    return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=device.type == "cuda")


def _stream(device: Any) -> Any:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None
