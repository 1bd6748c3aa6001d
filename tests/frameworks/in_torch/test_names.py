"""The names of a model, against what a training of it then contains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin import create_trial
from tocsin.watch import to_watch
from tocsin_hooks.names import Names, main, names_of
from tocsin_hooks.torch import TorchHook
from torch import nn

FACTORY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.act = nn.ReLU()
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.act(self.first(x)))

def build():
    return Net()

net = Net()

def broken():
    raise RuntimeError("no data")
"""


class Frozen(nn.Module):
    """One part does not learn, and two activations are of other kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.head = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 2), nn.Sigmoid())
        self.body.requires_grad_(requires_grad=False)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "factory_of_names.py"
    path.write_text(FACTORY)
    return str(path)


@pytest.mark.parametrize(
    "rules",
    [
        None,
        ["VanishingGradient"],
        ["DeadRelu", "TanhSaturation"],
        ["LossNotDecreasing", "WeightUpdateRatio"],
    ],
)
@pytest.mark.parametrize("make", [Frozen, lambda: nn.Linear(4, 2)], ids=["frozen", "linear"])
def test_what_is_listed_is_what_is_captured(make: Any, rules: Any, tmp_path: Path) -> None:
    watch = None if rules is None else to_watch({"rules": rules})
    model = make()
    listed = {tensor.name for tensor in names_of(model, watch).tensors}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    hook = TorchHook.attach(model, tmp_path / "run", watch=watch, save_interval=1)
    for _ in range(2):
        loss = model(torch.randn(6, 4)).square().mean()
        optimizer.zero_grad()
        hook.record_loss(loss).backward()
        optimizer.step()
    hook.close()
    captured = set(create_trial(str(tmp_path / "run")).tensor_names())
    captured = {name for name in captured if not name.startswith("interval/")}
    assert captured - {"loss", "loss/skill", "learning_rate"} == listed
    assert "loss" in captured


def test_the_rules_that_read_each_and_those_that_read_none() -> None:
    watch = {"rules": ["VanishingGradient", "DeadRelu", "LossNotDecreasing", "NoSuchRule"]}
    names = names_of(Frozen(), to_watch(watch))
    readers = {tensor.name: tensor.rules for tensor in names.tensors}
    assert set(readers.values()) == {("VanishingGradient",)}
    assert all(name.startswith("gradient/Frozen_head.") for name in readers)
    blind = {each.rule: each.loop for each in names.without_tensors}
    assert blind == {"DeadRelu": False, "LossNotDecreasing": True}
    assert [each.name for each in names.refused] == ["NoSuchRule"]


def test_a_table(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{file}:build"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "COLLECTIONS", "ROLE", "KIND", "RULES"]
    act = next(line for line in lines if line.startswith("act_output_0"))
    assert act.split()[1:5] == ["relu_output", "activation_outputs", "activation_output", "relu"]
    assert "these rules would have nothing to judge:" in lines
    assert any(line.startswith("  TreeDepth: role tree") for line in lines)


@pytest.mark.parametrize("of", ["build", "net", "Net"])
def test_json(of: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{file}:{of}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == "Net"
    assert set(found) == set(Names.__dataclass_fields__)
    weight = next(each for each in found["tensors"] if each["name"] == "Net_first.weight")
    assert (weight["collections"], weight["role"]) == (["weights"], "weight")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("factory", "must be module:factory or file.py:factory"),
        ("no.such.module:build", "cannot import no.such.module: ModuleNotFoundError"),
        ("missing.py:build", "cannot import missing.py: FileNotFoundError"),
        ("{file}:nothing", "has no nothing"),
        ("{file}:broken", "failed: RuntimeError: no data"),
        ("{file}:torch.float32", "gives a dtype, which is not a PyTorch model"),
    ],
)
def test_what_is_no_model_is_one_line(
    target: str, says: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([target.format(file=file)]) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert (told.err.count("\n"), told.out) == (1, "")


def test_a_watch_file_that_is_wrong(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "watch.json").write_text('{"rulez": []}')
    assert main([f"{file}:net", "--watch", str(tmp_path / "watch.json")]) == 2
    assert "rulez: unknown key" in capsys.readouterr().err
