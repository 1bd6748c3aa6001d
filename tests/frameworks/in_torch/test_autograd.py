"""Canaries: a small computation for each private name of PyTorch that the hook uses.

If one fails after an update of PyTorch, the name was changed: look for the new one, and change it
in ``tocsin_hooks/torch/autograd.py`` only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import autograd
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

LEAF = torch.randn(4, 3, requires_grad=True)
X = LEAF * 1.0
ROWS, CHOSEN = torch.arange(4), torch.tensor([0, 1, 2, 0])
LABELS = torch.randn(4, 3)


NODES: dict[str, list[Callable[[], Any]]] = {
    "ABS": [X.abs],
    "ADD": [lambda: X + LABELS, lambda: X + 1],
    "CAT": [lambda: torch.cat([X, X])],
    "CLAMP": [lambda: X.clamp(0, 1), lambda: X.clamp(min=0)],
    "CONVOLUTION": [lambda: nn.Conv1d(4, 2, 3)(X[None])],
    "DIV": [lambda: X / LABELS, lambda: X / 2],
    "EXP": [X.exp],
    "EXPAND": [lambda: X[None].expand(2, 4, 3)],
    "GATHER": [lambda: X.gather(1, CHOSEN[:, None])],
    "HUBER_LOSS": [lambda: F.huber_loss(X, LABELS)],
    "INDEX": [lambda: X[ROWS, CHOSEN]],
    "LINEAR": [lambda: nn.Linear(3, 2)(X)],
    "LOG": [X.log],
    "LOG_SOFTMAX": [lambda: X.log_softmax(1)],
    "LOGSUMEXP": [lambda: X.logsumexp(1)],
    "MASKED_SELECT": [lambda: X.masked_select(LABELS > 0)],
    "MAXIMUM": [lambda: torch.maximum(X, LABELS), lambda: torch.max(X, LABELS)],
    "MEAN": [X.mean],
    "MINIMUM": [lambda: torch.minimum(X, LABELS), lambda: torch.min(X, LABELS)],
    "MSE_LOSS": [lambda: F.mse_loss(X, LABELS)],
    "MUL": [lambda: X * LABELS, lambda: X * 2],
    "NEG": [lambda: -X],
    "POW": [lambda: X**2, X.square],
    "RELU": [X.relu],
    "SELECT": [lambda: X[:, 0]],
    "SIGMOID": [X.sigmoid],
    "SLICE": [lambda: X[1:]],
    "SMOOTH_L1_LOSS": [lambda: F.smooth_l1_loss(X, LABELS)],
    "SOFTMAX": [lambda: X.softmax(1)],
    "SOFTPLUS": [lambda: F.softplus(X)],
    "SQRT": [X.sqrt],
    "STACK": [lambda: torch.stack([X, X])],
    "SUB": [lambda: X - LABELS, lambda: X - 1],
    "SUM": [X.sum],
    "TANH": [X.tanh],
    "TO_DTYPE": [X.double],
    "VECTOR_NORM": [X.norm, lambda: X.norm(dim=1)],
    "WHERE": [lambda: torch.where(LABELS > 0, X, 0.0)],
    "MATRIX_PRODUCTS": [lambda: X @ LABELS.T, lambda: torch.bmm(X[None], LABELS.T[None])],
    "MAXIMA_OF_AXES": [lambda: X.amax(1), lambda: X.max(1).values],
    "MEANS": [X.mean, lambda: X.mean(1)],
    "SUMS": [X.sum, lambda: X.sum(1)],
    "VIEWS": [lambda: X.view(12), lambda: X.T.reshape(12)],
}


def renamed(what: str, found: object) -> str:
    return f"PyTorch {torch.__version__} renamed {what}: it gives {found!r} now. See autograd.py"


@pytest.mark.parametrize("name", NODES)
def test_names_of_nodes(name: str) -> None:
    expected = getattr(autograd, name)
    for compute in NODES[name]:
        found = autograd.name_of(compute().grad_fn)
        assert found == expected or found in expected, renamed(name, found)


def test_the_name_of_a_second_derivative() -> None:
    (slope,) = torch.autograd.grad(F.softplus(X).sum(), X, create_graph=True)
    found = autograd.name_of(slope.grad_fn)
    assert autograd.OF_DERIVATIVES in found, renamed("OF_DERIVATIVES", found)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="the CPU has another LSTM")
def test_the_name_of_an_lstm() -> None:
    (output, _) = nn.LSTM(3, 2)(torch.randn(5, 1, 3))
    found = autograd.name_of(output.grad_fn)
    assert found == autograd.LSTM_ON_CPU, renamed("LSTM_ON_CPU", found)


def test_what_no_grad_calls() -> None:
    heard = []

    class Hears(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            heard.append(func)
            return func(*args, **(kwargs or {}))

    with Hears(), torch.no_grad():
        pass
    assert autograd.SETS_GRADIENTS in heard, renamed("SETS_GRADIENTS", heard)


def test_every_name_has_a_canary() -> None:
    names = {name for name in vars(autograd) if name.isupper()}
    others = {"LSTM_ON_CPU", "OF_DERIVATIVES", "BATCH_NORM", "DROPOUT", "LOSS", "DRAW_GAMMA"}
    others |= {"SETS_GRADIENTS"}
    others |= {"COMPILED_CHILD", "WRAPPER_CHILDREN"}
    assert names - others - NODES.keys() - {"_RESHAPES", "_MAKES_ROOM"} == set()


@pytest.mark.parametrize(
    "compute",
    [
        X.clone,
        X.double,
        lambda: X.T,
        lambda: X.transpose(0, 1),
        lambda: X.permute(1, 0),
        lambda: X.view(12),
        lambda: X.T.reshape(12),
        lambda: X[:, None],
        lambda: X[:, None].squeeze(),
        lambda: X[:, None].squeeze(1),
        lambda: torch.ops.aten.alias(X),
    ],
)
def test_other_forms_of_the_same_numbers(compute: Callable[[], Any]) -> None:
    node = compute().grad_fn
    assert autograd.gives_another_form(node), renamed("a view", node)


def test_axes_that_were_added() -> None:
    for found in (X[:, None], X[None].expand(2, 4, 3), X.view(4, 1, 3)):
        assert autograd.makes_room(found.grad_fn), renamed("a view", found.grad_fn)
    assert not autograd.makes_room((X @ LABELS.T).grad_fn)


def test_where_a_node_comes_from() -> None:
    node = (X + LABELS).grad_fn
    assert autograd.inputs_of(node) == [X.grad_fn, None], renamed("next_functions", node)
    assert autograd.edges_of(node) == [(X.grad_fn, 0)]
    assert autograd.edges_of(X.unbind()[1].abs().grad_fn)[0][1] == 1
    assert autograd.output_number(X.unbind()[1]) == 1, renamed("output_nr", X)
    (leaf,) = autograd.inputs_of(X.grad_fn)[:1]
    assert autograd.parameter_of(leaf) is LEAF, renamed("variable", leaf)


def test_what_a_node_keeps() -> None:
    def check(found: Any, expected: Any, name: str) -> None:
        same = isinstance(found, torch.Tensor) and torch.equal(found, expected)
        assert same, renamed(f"_saved_{name}", found)

    check(autograd.constant_of((X * LABELS).grad_fn), LABELS, "other")
    check(autograd.constant_of((LABELS * X).grad_fn), LABELS, "self")
    check(autograd.divisor_of((X / LABELS).grad_fn), LABELS, "other")
    probabilities = X.softmax(1)
    check(autograd.result_of(probabilities.grad_fn), probabilities, "result")
    root = (X * X).sqrt()
    check(autograd.result_of(root.grad_fn), root, "result")
    check(autograd.argument_of(root.log().grad_fn), root, "self")
    for matrix in autograd.matrices_of((X @ X.T).grad_fn):
        assert matrix is not None, renamed("_saved_self or _saved_mat2", None)
    (index,) = autograd.indices_of(X.gather(1, CHOSEN[:, None]).grad_fn)
    check(index, CHOSEN[:, None], "index")
    rows, chosen = autograd.indices_of(X[ROWS, CHOSEN].grad_fn)
    check(rows, ROWS, "indices")
    check(chosen, CHOSEN, "indices")
    for given in ((0, 1), (0, None), (None, 1)):
        found = autograd.limits_of(X.clamp(*given).grad_fn)
        assert found == given, renamed("_saved_min or _saved_max", found)
    found = autograd.exponent_of((X**3).grad_fn)
    assert found == 3, renamed("_saved_exponent", found)
    found = autograd.viewed_shape(X.view(12).grad_fn)
    assert found == (4, 3), renamed("_saved_self_sym_sizes", found)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax, torch.logsumexp])
def test_the_axis_of_a_softmax(function: Callable[..., Any], axis: int) -> None:
    found = autograd.softmax_of(function(X, axis).grad_fn)
    assert found == autograd.Softmax((4, 3), axis % 2), renamed("_saved_dim", found)


def test_what_was_freed_is_not_known() -> None:
    leaf = torch.ones(3, requires_grad=True)
    found = leaf.softmax(0)
    found.sum().backward()
    assert autograd.result_of(found.grad_fn) is None
    assert autograd.softmax_of(found.grad_fn) is None


@pytest.mark.parametrize(
    "ask",
    [
        autograd.inputs_of,
        autograd.edges_of,
        autograd.parameter_of,
        autograd.constant_of,
        autograd.divisor_of,
        autograd.argument_of,
        autograd.result_of,
        autograd.softmax_of,
        autograd.indices_of,
        autograd.limits_of,
        autograd.exponent_of,
        autograd.viewed_shape,
        autograd.output_number,
        autograd.base_of,
        autograd.is_replica,
        autograd.is_compiled_itself,
        autograd.pre_hooks,
        autograd.has_backward_hooks,
        autograd.parts_of_schedule,
        autograd.phases_of_schedule,
    ],
)
def test_what_lost_its_names_is_not_known(ask: Callable[[Any], Any]) -> None:
    assert ask(SimpleNamespace(name=lambda: "NewBackward0")) in (None, 0, False, (), [])


@pytest.mark.parametrize(
    ("owner", "name", "ask", "expected"),
    [
        (torch._C, "_len_torch_function_stack", autograd.newest_function_mode, ...),
        (torch._C, "_get_function_stack_at", autograd.newest_function_mode, None),
        (torch._C, "_current_graph_task_id", autograd.backward_pass, -1),
        (torch._C._functorch, "peek_interpreter_stack", autograd.is_transforming, False),
        (
            torch._C._functorch,
            "is_functorch_wrapped_tensor",
            lambda: autograd.holds_numbers(X),
            True,
        ),
        (
            torch.autograd.Variable,
            "_execution_engine",
            lambda: autograd.after_backward(lambda: None),
            None,
        ),
    ],
)
def test_functions_that_are_gone_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, ask: Callable[[], Any], expected: Any
) -> None:
    monkeypatch.delattr(owner, name)
    assert ask() is expected or ask() == expected


def test_numbers_are_copied_one_by_one_without_the_fast_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert hasattr(torch, "_foreach_copy_"), renamed("_foreach_copy_", None)
    for _ in range(2):
        target = torch.zeros(2, 3)
        autograd.copy_all([target[0], target[1]], [torch.ones(3), torch.full((3,), 2.0)])
        assert target.tolist() == [[1.0] * 3, [2.0] * 3]
        monkeypatch.delattr(torch, "_foreach_copy_", raising=False)


def test_changes_of_a_tensor() -> None:
    tensor = torch.zeros(2)
    before = autograd.version_of(tensor)
    tensor += 1
    assert autograd.version_of(tensor) == before + 1, renamed("_version", None)
    with torch.inference_mode():
        assert autograd.version_of(torch.zeros(2)) == 0
    assert autograd.base_of(tensor[:1]) is tensor, renamed("_base", None)
    assert autograd.base_of(tensor) is None


def test_a_backward_pass() -> None:
    seen: list[Any] = []
    tensor = torch.ones(2, requires_grad=True)

    def arrived(_: Any) -> None:
        autograd.after_backward(lambda: seen.append("end"))
        seen.append(autograd.backward_pass())

    tensor.register_hook(arrived)
    for _ in range(2):
        tensor.sum().backward()
    assert autograd.backward_pass() == -1
    one, end, other, _ = seen
    assert one != other, renamed("_current_graph_task_id", one)
    assert one >= 0
    assert end == "end", renamed("queue_callback", end)


def test_tensors_without_numbers_of_their_own() -> None:
    seen: list[bool] = [autograd.is_transforming(), autograd.holds_numbers(X)]
    assert seen == [False, True]

    def inside(x: Any) -> Any:
        seen.extend([autograd.is_transforming(), autograd.holds_numbers(x)])
        return x * 2

    torch.func.vmap(inside)(torch.ones(2))
    assert seen[2:] == [True, False], renamed("_functorch", seen)
    with FakeTensorMode():
        assert not autograd.holds_numbers(torch.ones(2)), renamed("FakeTensor", None)


def test_tensors_that_are_made_of_others() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    assert autograd.is_wrapper(TwoTensor(torch.ones(2), torch.ones(2)))
    assert not autograd.is_wrapper(X)


def test_modes_of_functions() -> None:
    class Own(TorchFunctionMode):
        pass

    assert autograd.newest_function_mode() is None
    with Own(), Own() as own:
        found = autograd.newest_function_mode()
        assert found is own, renamed("_get_function_stack_at", found)
        others: list[Any] = []
        thread = threading.Thread(target=lambda: others.append(autograd.newest_function_mode()))
        thread.start()
        thread.join()
        assert others == [None]


def test_modules_that_are_compiled() -> None:
    model = nn.Linear(3, 1)
    before = autograd.compilations()
    compiled: Any = torch.compile(model, backend="eager")
    assert autograd.is_compiled_module(compiled), renamed("OptimizedModule", type(compiled))
    assert autograd.is_compiled_itself(compiled), renamed("_orig_mod", compiled)
    assert autograd.child(compiled, autograd.COMPILED_CHILD) is model
    assert not autograd.is_compiled_itself(model)
    assert not autograd.is_compiled_module(model)
    compiled(LABELS)
    assert autograd.compilations() > before, renamed("torch._dynamo.utils.counters", before)
    model.compile(backend="eager")
    assert autograd.is_compiled_itself(model), renamed("_compiled_call_impl", model)


def test_names_of_wrappers() -> None:
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper
    from torch.distributed.fsdp import _common_utils

    assert checkpoint_wrapper._CHECKPOINT_WRAPPED_MODULE in autograd.WRAPPER_CHILDREN
    assert _common_utils.FSDP_WRAPPED_MODULE in autograd.WRAPPER_CHILDREN


def test_kinds_of_modules() -> None:
    for norm in (nn.BatchNorm1d(2), nn.BatchNorm2d(2), nn.SyncBatchNorm(2)):
        assert isinstance(norm, autograd.BATCH_NORM), renamed("_BatchNorm", norm)
    assert not isinstance(nn.LayerNorm(2), autograd.BATCH_NORM)
    for dropout in (nn.Dropout(), nn.Dropout2d(), nn.AlphaDropout()):
        assert isinstance(dropout, autograd.DROPOUT), renamed("_DropoutNd", dropout)
    for loss in (nn.MSELoss(), nn.CrossEntropyLoss(), nn.CTCLoss()):
        assert isinstance(loss, autograd.LOSS), renamed("_Loss", loss)


def test_what_modules_hold() -> None:
    model: Any = nn.Sequential(nn.Linear(3, 1))
    model.extra = [nn.Linear(2, 2)]
    assert any(value is model.extra for value in autograd.plain_attributes(model))
    assert not any(value is model._modules for value in autograd.plain_attributes(model))
    assert autograd.child(model, "0") is model[0]
    assert autograd.child(model, "1") is None
    traced: Any = torch.jit.trace(model, LABELS)
    assert autograd.child(traced, "0") is not None
    assert autograd.child(traced, "1") is None
    model.register_forward_pre_hook(print)
    assert autograd.pre_hooks(model) == (print,), renamed("_forward_pre_hooks", None)
    assert not autograd.has_backward_hooks(model)
    model.register_full_backward_pre_hook(print)
    assert autograd.has_backward_hooks(model), renamed("_backward_pre_hooks", None)
    model[0].register_full_backward_hook(print)
    assert autograd.has_backward_hooks(model[0]), renamed("_backward_hooks", None)


def test_replicas_of_data_parallel() -> None:
    replica = nn.Linear(2, 2)._replicate_for_data_parallel()  # type: ignore[no-untyped-call]
    assert autograd.is_replica(replica), renamed("_is_replica", replica)
    assert not autograd.is_replica(nn.Linear(2, 2))


def test_schedules() -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 1).parameters(), 0.1)
    steps = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    chained = torch.optim.lr_scheduler.ChainedScheduler([steps])
    assert [*autograd.parts_of_schedule(chained)] == [steps], renamed("_schedulers", chained)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10, pct_start=0.5)
    first, *_ = autograd.phases_of_schedule(cycle)
    assert first["end_step"] == 4, renamed("_schedule_phases", first)


def test_draws_of_a_gamma_distribution() -> None:
    assert hasattr(torch, autograd.DRAW_GAMMA), renamed("_standard_gamma", None)
