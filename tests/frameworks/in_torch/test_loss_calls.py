"""A window on calls of losses: what it sees, and that it leaves PyTorch as it was."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.meter import Meter
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import TorchHook, checks, loss_calls
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.tape import Tape
from tocsin_hooks.torch.contracts.across import DIFFERENCES
from tocsin_hooks.torch.dispatcher import Dispatcher
from tocsin_hooks.torch.events import BackwardEnds, Called
from tocsin_hooks.torch.loss_calls import Listener, LossWindow
from torch import nn
from torch.overrides import TorchFunctionMode


class Seen:
    def __init__(self) -> None:
        self.losses: list[LossCall] = []
        self.others: list[str] = []
        self.errors: list[Exception] = []
        events = Dispatcher(lambda _, error: self.errors.append(error))
        events.subscribe(Called, self, self.called)
        events.subscribe(BackwardEnds, self, lambda _: self.others.append("after"))
        self.window = LossWindow(
            Listener(
                events=events,
                loss=self.losses.append,
                backward=lambda _: self.others.append("backward"),
                recorded=lambda *_: self.others.append("recorded"),
                left=lambda *_: self.others.append("left"),
                tape=Tape(),
                trouble=lambda _, error: self.errors.append(error),
                meter=Meter(),
            )
        )

    def called(self, event: Called) -> None:
        if event.function in DIFFERENCES:
            self.others.append("difference")


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    yield found
    found.window.close()
    assert modes() == 0
    assert found.errors == []


def modes() -> int:
    return int(torch._C._len_torch_function_stack())


P, Y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])


def test_a_call_with_its_arguments(seen: Seen) -> None:
    seen.window.open()
    given = F.cross_entropy(P, Y, label_smoothing=0.1)
    seen.window.close()
    F.cross_entropy(P, Y)
    (call,) = seen.losses
    assert (call.name, call.module) == ("cross_entropy", None)
    assert call.value is given
    assert call.prediction is P
    assert call.target is Y
    assert call.arguments["label_smoothing"] == 0.1
    assert call.place.startswith("test_loss_calls.py:")


def test_the_module_that_calls(seen: Seen) -> None:
    seen.window.open()
    nn.CrossEntropyLoss()(P, Y)
    nn.MSELoss()(P, P)
    assert [call.module for call in seen.losses] == ["CrossEntropyLoss", "MSELoss"]


def test_differences_and_backward_passes(seen: Seen) -> None:
    seen.window.open()
    p = P.clone().requires_grad_()
    ((p - P).square().sum() + (1 - p).sum() - torch.sub(p, P).sum()).backward()
    torch.autograd.backward(p.sum())
    assert seen.others == [*["difference"] * 4, *["backward", "after"] * 2]


class Own(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_it_stays_off_a_stack_that_is_in_use(seen: Seen) -> None:
    with Own():
        seen.window.open()
        assert modes() == 1
    assert not seen.window.is_open


def test_a_mode_that_is_entered_in_it(seen: Seen) -> None:
    seen.window.open()
    with Own():
        seen.window.close()  # it is below, and has to wait
        assert modes() == 2
    assert modes() == 1
    F.cross_entropy(P, Y)
    assert seen.losses == []
    left = torch._C._get_function_stack_at(0)
    left.__exit__(None, None, None)


def test_a_device_that_is_entered_in_it(seen: Seen) -> None:
    with torch.device("cpu"):
        seen.window.open()
        assert not seen.window.is_open
    seen.window.open()
    with torch.device("meta"):
        assert torch.ones(1).is_meta
        assert modes() == 2
    seen.window.close()


def test_it_stays_closed_after_something_was_compiled_in_it(seen: Seen) -> None:
    compiled = torch.compile(nn.Linear(3, 1), backend="eager")
    seen.window.open()
    compiled(P)
    seen.window.close()

    seen.window.open()

    assert not seen.window.is_open


def test_the_line_of_the_script() -> None:
    assert script_line().startswith("test_loss_calls.py:")


def warned_by(call: Callable[[], object]) -> list[tuple[str, str, int]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(str(each.message), each.filename, each.lineno) for each in caught]


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.mse_loss(P[:, :1], P[:, 0]),
        lambda: F.softmax(P),
        lambda: F.gumbel_softmax(P, eps=1e-9),
        lambda: F.dropout2d(P),
        lambda: nn.Dropout2d()(P),
        lambda: torch.tensor(P),
        lambda: torch.range(0, 3),
        lambda: P.resize(12),
    ],
)
def test_a_warning_names_the_same_line_as_without_it(
    seen: Seen, call: Callable[[], object]
) -> None:
    plain = warned_by(call)
    seen.window.open()
    with_window = warned_by(call)
    seen.window.close()
    assert plain
    assert with_window == plain


def test_a_warning_that_is_shown_once_is_shown_once(seen: Seen) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for place in range(4):
            if place == 2:
                seen.window.open()
            F.softmax(P)
    seen.window.close()
    assert len(caught) == 1


def test_a_number_of_a_tensor_warns_there_as_well() -> None:
    """PyTorch warns once in a process: so in one of its own."""
    script = Path(__file__).parent / "scripts" / "number_of_a_loss.py"
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, timeout=120
    )
    assert "number_of_a_loss.py" in done.stderr
    assert "loss_calls.py" not in done.stderr


def test_several_windows_share_a_mode(seen: Seen) -> None:
    other = Seen()
    seen.window.open()
    other.window.open()
    assert modes() == 1
    F.cross_entropy(P, Y)
    seen.window.close()
    F.cross_entropy(P, Y)
    other.window.close()
    assert modes() == 0
    assert (len(seen.losses), len(other.losses)) == (1, 2)


def test_a_long_step_is_looked_at_in_its_first_passes(run: Path) -> None:
    """An episode, or a text that is generated."""

    class Policy(nn.Linear):
        looked: tuple[int, ...] = ()

        def forward(self, x: Any) -> Any:
            self.looked += (modes(),)
            return super().forward(x)

    model = Policy(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with TorchHook.attach(model, run, save_interval=1, accumulate=100) as hook:
        loss = sum(model(torch.randn(1, 4)).sum() for _ in range(100))
        loss.backward()
        optimizer.step()
        assert hook.stats.errors == 0
    assert model.looked == (1,) * 64 + (0,) * 36


@pytest.mark.parametrize(("episode", "heard"), [(10, True), (100, False)])
def test_a_step_whose_passes_are_not_seen_hears_so_many_calls(
    episode: int, heard: bool, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others act in an episode, as an older policy does."""
    monkeypatch.setattr(checks, "_MOST_OF_STEP", 50)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    seen = []
    for_real = loss_calls._after
    monkeypatch.setattr(
        loss_calls, "_after", lambda *given: (seen.append(given[2]), for_real(*given))
    )
    with TorchHook.attach(model, run, save_interval=1):
        for _ in range(3):
            for _ in range(episode):
                torch.add(P, 1)
            optimizer.zero_grad()
            seen.clear()
            F.mse_loss(model.forward(torch.randn(5, 4)), torch.zeros(5, 2)).backward()
            optimizer.step()
    assert (F.mse_loss in seen) is heard
