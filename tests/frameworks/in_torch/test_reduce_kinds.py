"""Tensors that are more, or less, than numbers in memory."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from tocsin.model import Shard as TensorShard
from tocsin.tensors import summarize
from tocsin_hooks.torch.reductions import plain
from tocsin_hooks.torch.reductions.reduce import Reducer
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.frameworks.in_torch.reducing import assert_alike, captured, fail, plan_of

NUMBERS = torch.arange(-6.0, 6.0).view(3, 4)


@pytest.fixture(params=[False, True], ids=["host", "device"])
def reducer(request):
    return Reducer(fail, device=request.param)


def _sparse():
    with torch.sparse.check_sparse_tensor_invariants():
        return torch.sparse_coo_tensor([[0, 2, 0], [1, 3, 1]], [1.0, 2.0, 4.0], (3, 4))


def _quantized():
    return torch.quantize_per_tensor(NUMBERS, 0.5, 20, torch.quint8)


class _Named(torch.Tensor):
    pass


SEEN_THROUGH = {
    "parameter": lambda: (torch.nn.Parameter(NUMBERS), NUMBERS),
    "of a graph": lambda: (NUMBERS.clone().requires_grad_() * 2, NUMBERS * 2),
    "subclass": lambda: (NUMBERS.as_subclass(_Named), NUMBERS),
    "sparse": lambda: (_sparse(), _sparse().to_dense()),
    "csr": lambda: (NUMBERS.to_sparse_csr(), NUMBERS),
    "quantized": lambda: (_quantized(), _quantized().dequantize()),
    "conjugate": lambda: ((NUMBERS * 1j).conj(), (NUMBERS * 1j).conj_physical()),
    "negated": lambda: ((NUMBERS * 1j).conj().imag, -NUMBERS),
    "half complex": lambda: ((NUMBERS * 1j).to(torch.complex32), NUMBERS * 1j),
    "short float": lambda: (NUMBERS.to(torch.float8_e4m3fn), NUMBERS),
    "unsigned": lambda: (NUMBERS.abs().to(torch.uint16), NUMBERS.abs()),
    "large unsigned": lambda: (NUMBERS.abs().to(torch.uint64), NUMBERS.abs()),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # what some of these kinds say of themselves
@pytest.mark.parametrize("kind", SEEN_THROUGH)
@pytest.mark.parametrize("raw", [False, True])
def test_seen_through(kind, raw, reducer):
    tensor, numbers = SEEN_THROUGH[kind]()
    found = captured(reducer, (plan_of(raw=raw), tensor))["w"]
    assert_alike(found.summary, summarize(numbers.numpy(), fingerprint=False))
    if raw:
        assert found.value.tolist() == numbers.tolist()


def _fake():
    with FakeTensorMode():
        return torch.empty(3)


WITHOUT_NUMBERS = {
    "meta": lambda: torch.empty(3, device="meta"),
    "fake": _fake,
    "not initialised": lambda: torch.nn.LazyLinear(3).weight,
}


@pytest.mark.parametrize("kind", WITHOUT_NUMBERS)
def test_left_out_in_silence(kind, reducer):
    assert captured(reducer, (plan_of(), WITHOUT_NUMBERS[kind]())) == {}


def test_inside_a_function_transform(reducer):
    found = []

    def row(each):
        found.append(captured(reducer, (plan_of(), each)))
        return each

    torch.vmap(row)(NUMBERS)
    assert found == [{}]


@pytest.mark.parametrize("device", [False, True])
def test_what_cannot_be_reduced_costs_nothing_else(device, monkeypatch):
    monkeypatch.setattr(plain, "_MOST_DENSE", 5)
    troubles = []
    reducer = Reducer(lambda what, error: troubles.append((what, str(error))), device=device)
    nested = torch.nested.nested_tensor([NUMBERS[0], NUMBERS[1, :2]], layout=torch.jagged)
    found = captured(
        reducer,
        (plan_of("nested"), nested),
        (plan_of("sparse"), _sparse()),
        (plan_of(""), NUMBERS),
        (plan_of("n" * 5000), NUMBERS),
        (plan_of("odd", reductions=("mode",)), NUMBERS),
        (plan_of("good"), NUMBERS),
    )
    assert set(found) == {"odd", "good"}, "without its reduction, but there"
    assert len(troubles) == 4
    assert troubles[0][0] == "tensor 'nested' is not captured"
    assert "NestedTensor" in troubles[0][1]
    assert "12 elements is too large" in troubles[1][1]


def test_of_a_spread_tensor_the_part_that_is_here(reducer):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        spread = distribute_tensor(NUMBERS.clone(), mesh, [Shard(0)])
        found = captured(reducer, (plan_of(), spread))["w"]
    finally:
        dist.destroy_process_group()
    assert_alike(found.summary, summarize(NUMBERS.numpy(), fingerprint=False))


@pytest.fixture
def mesh():
    """Of two by two ranks, of which this is the last; nothing is sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=4)
    yield init_device_mesh("cpu", (2, 2))
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("placements", "shard"),
    [
        ((Shard(0), Replicate()), TensorShard((6, 4), 1)),
        ((Replicate(), Shard(1)), TensorShard((3, 8), 1)),
        ((Shard(0), Shard(0)), TensorShard((12, 4), 3)),
        ((Replicate(), Replicate()), None),
    ],
)
def test_a_part_says_which_one_it_is(reducer, mesh, placements, shard):
    part = DTensor.from_local(NUMBERS, mesh, placements, run_check=False)
    found = captured(reducer, (plan_of(), part))["w"]
    assert (found.shape, found.shard) == ((3, 4), shard)


def test_a_part_of_a_sum_is_left_out(mesh):
    said = []
    part = DTensor.from_local(NUMBERS, mesh, (Partial(), Replicate()), run_check=False)
    assert captured(Reducer(lambda *each: said.append(each)), (plan_of(), part)) == {}
    assert "partial sum" in str(said[0][1])


def test_a_model_in_training(reducer):
    """Gradients, weights and outputs as a hook meets them."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(NUMBERS)
        during = captured(reducer, (plan_of("out"), output))
    output.float().sum().backward()
    pairs = [(plan_of(name), each.grad) for name, each in model.named_parameters()]
    found = captured(reducer, *pairs)
    for name, each in model.named_parameters():
        right = summarize(each.grad.numpy(), fingerprint=each.numel() == 1)
        assert_alike(found[name].summary, right)
    assert during["out"].dtype == "bfloat16"


def test_in_inference_mode(reducer):
    plan = plan_of(update=True)
    with torch.inference_mode():
        captured(reducer, (plan, NUMBERS + 1))
    found = captured(reducer, (plan, NUMBERS))["w"].summary
    assert (found.update_l1, found.update_l2) == (12, pytest.approx(12**0.5))
