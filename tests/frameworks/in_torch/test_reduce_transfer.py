"""One transfer a step, no waiting in the training's thread, and values as they were."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
import torch
from tocsin import create_trial
from tocsin.model import Detail, Mode, Role
from tocsin.tensors import RunWriter, open_storage
from tocsin_hooks.torch.reductions import detail, packing, transfer
from tocsin_hooks.torch.reductions.reduce import Reducer, gathered
from torch.utils._python_dispatch import TorchDispatchMode

from tests.frameworks.in_torch.reducing import DEVICE, captured, fail, on_device, plan_of

EVERYTHING = {
    "details": (Detail(quantiles=(0.5,), active=(0.0, None), channel_axis=0),),
    "update": True,
    "fingerprint": True,
}
WAITS = {"_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal", "unique"}


def a_step(device=DEVICE):
    """Plans and tensors of all the ways that there are."""
    return [
        (plan_of("large", **EVERYTHING), torch.randn(300, 200, device=device)),
        (plan_of("small", **EVERYTHING), torch.randn(9, 3, device=device)),
        (plan_of("short", **EVERYTHING), torch.randn(300, 200, device=device).bfloat16()),
        (plan_of("whole", **EVERYTHING), torch.arange(8000, device=device)),
        (plan_of("kept", raw=True), torch.randn(50, 50, device=device)),
        (plan_of("numbers", reductions=("mean", "std")), torch.randn(70, 90, device=device)),
        (plan_of("loss", collections=("losses",)), torch.tensor(0.5, device=device)),
        (plan_of("empty"), torch.empty(0, 3, device=device)),
    ]


class _Watched(TorchDispatchMode):
    """The names of all operations, and the largest new memory of one."""

    def __init__(self):
        super().__init__()
        self.names = []
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = {
            each.untyped_storage().data_ptr() for each in args if isinstance(each, torch.Tensor)
        }
        result = func(*args, **(kwargs or {}))
        self.names.append(func.overloadpacket.__name__)
        for each in result if isinstance(result, tuple | list) else [result]:
            if isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() not in given:
                self.largest = max(self.largest, each.untyped_storage().nbytes())
        return result


def test_reducing_waits_for_nothing():
    reducer, pairs = on_device(), a_step()
    captured(reducer, *pairs)  # an earlier save, for the updates
    waited = reducer.synchronisations
    with _Watched() as watched:
        parts = [reducer.reduce(pairs[:3]), reducer.reduce(pairs[3:])]
        whole = gathered(parts)
    assert WAITS.isdisjoint(watched.names)
    assert "mul" in watched.names  # the fingerprints'
    assert reducer.synchronisations == waited
    assert len(whole.finish()) == len(pairs) + 2
    assert reducer.synchronisations == waited + 1


def test_parts_of_a_step_travel_together(monkeypatch):
    sent = []
    shipment = transfer._Shipment

    def shipped(parcels):
        sent.append(len(parcels))
        return shipment(parcels)

    monkeypatch.setattr(transfer, "_Shipment", shipped)
    reducer = on_device()
    whole = gathered([reducer.reduce([pair]) for pair in a_step()])
    assert sent == [8]
    whole.finish()
    assert sent == [8]


def test_values_are_those_of_the_moment_of_reducing():
    pairs = a_step()
    right = captured(on_device(), *((plan, tensor.clone()) for plan, tensor in pairs))
    reduced = on_device().reduce(pairs)
    for _, tensor in pairs:
        tensor.fill_(17)
    found = {}
    thread = threading.Thread(
        target=lambda: found.update({each.name: each for _, each in reduced.finish()})
    )
    thread.start()
    thread.join()
    assert list(found) == list(right)
    for name, each in found.items():
        assert each.summary == right[name].summary
        assert np.array_equal(each.value, right[name].value) or each.value is None
    assert found["loss"].value == 0.5


def test_nothing_holds_on_to_the_tensors():
    reducer, pairs = on_device(), a_step()
    tensors = [weakref.ref(tensor) for _, tensor in pairs]
    reduced = reducer.reduce(pairs)
    del pairs
    gc.collect()
    assert [ref() for ref in tensors] == [None] * len(tensors)
    assert len(reduced.finish()) == 10


@pytest.mark.parametrize(
    ("tensor", "details"),
    [
        (torch.zeros(1 << 18), ()),
        (torch.zeros(1 << 18)[::2], ()),
        (torch.zeros(1 << 9, 1 << 9), (Detail(active=(0.0, None), channel_axis=0),)),
        (torch.zeros(1 << 9, 1 << 9).t(), (Detail(active=(0.0, None), channel_axis=0),)),
        (torch.zeros(2, 1 << 17), (Detail(active=(0.0, None), unit_axis=0, channel_axis=0),)),
        (torch.zeros(1 << 17, 2).t(), (Detail(active=(0.0, None), unit_axis=0, channel_axis=0),)),
    ],
)
def test_no_temporary_is_as_large_as_the_tensor(tensor, details, monkeypatch):
    chunk = 1 << 14
    monkeypatch.setattr(packing, "CHUNK", chunk)
    monkeypatch.setattr(detail, "CHUNK", chunk)
    wish = {"details": details, "update": True, "fingerprint": True}
    reducer, plan = on_device(), plan_of(**wish, reductions=("std", "max"))
    captured(reducer, (plan, tensor))
    with _Watched() as watched:
        reducer.reduce([(plan, tensor)])
    assert watched.largest <= 2 * 8 * chunk < tensor.nbytes


def test_finishing_without_gathering():
    reducer = on_device()
    assert [each.name for _, each in reducer.reduce(a_step()[:1]).finish()] == ["large"]
    assert reducer.synchronisations == 1
    assert gathered([]).finish() == []
    assert gathered([reducer.reduce([])]).finish() == []
    assert reducer.synchronisations == 1


def test_the_memory_that_it_holds():
    kept = torch.ones(1000, device=DEVICE)
    assert 4000 <= on_device().reduce([(plan_of(raw=True), kept)]).nbytes < 4100
    assert on_device().reduce([(plan_of(), torch.ones(100_000, device=DEVICE))]).nbytes < 1000
    assert Reducer(fail).reduce([(plan_of(raw=True), torch.ones(1000))]).nbytes == 4000


def test_large_values_travel_by_themselves(monkeypatch):
    monkeypatch.setattr(transfer, "_BY_ITSELF", 100)
    pairs = [(plan_of(str(size), raw=True), torch.randn(size, device=DEVICE)) for size in (9, 99)]
    right = {str(len(tensor)): tensor.tolist() for _, tensor in pairs}
    reduced = on_device().reduce(pairs)
    for _, tensor in pairs:
        tensor.zero_()
    found = {each.name: each.value.tolist() for _, each in reduced.finish()}
    assert found == right


def test_one_that_fails_on_the_host_does_not_cost_the_others():
    troubles = []
    reducer = on_device(lambda what, error: troubles.append(what))
    reduced = reducer.reduce(a_step())
    reduced.finishes.insert(1, lambda: reducer._finished(lambda: 1 / 0, "a bad one"))
    assert len(reduced.finish()) == 10
    assert troubles == ["a bad one"]


@pytest.mark.parametrize("device", [False, True])
def test_a_run_reads_back(device, tmp_path):
    """Through files: values, bfloat16 among them, and summaries."""
    pairs = a_step("cpu")
    pairs.append((plan_of("bits", raw=True), torch.tensor([1.5, -2.0, 3.140625]).bfloat16()))
    found = captured(Reducer(fail, device=device), *pairs)
    writer = RunWriter(open_storage(str(tmp_path)), run_id="1")
    writer.write_collections([])
    writer.write(0, Mode.TRAIN, 0, found.values())
    writer.close()
    trial = create_trial(str(tmp_path))
    tensors = {plan.saved.name: tensor for plan, tensor in pairs}
    assert set(tensors) <= set(trial.tensor_names())
    assert trial.tensor("kept").value(0).tolist() == tensors["kept"].tolist()
    assert trial.tensor("bits").value(0).tolist() == [1.5, -2.0, 3.140625]
    assert trial.tensor("loss").value(0) == 0.5
    assert found["large"].role is Role.WEIGHT
    assert found["loss"].role is Role.LOSS
    right = float(tensors["numbers"].double().mean())
    assert trial.tensor("numbers").reduction_value(0, "mean") == pytest.approx(right, rel=1e-5)
