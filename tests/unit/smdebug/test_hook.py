"""What a script configures, as the hook underneath gets it; without any framework."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin import create_trial
from tocsin.model import Mode
from tocsin.smdebug import ReductionConfig, SaveConfig, SaveConfigMode, modes
from tocsin.smdebug.core.collection import Collection
from tocsin.smdebug.core.hook import BaseHook
from tocsin.smdebug.core.singleton_utils import del_hook, get_hook, set_hook
from tocsin.watch import Capture, CollectionConfig
from tocsin.watch import SaveConfig as Steps

RAW = CollectionConfig(save_raw_tensor=True)


def capture(hook: BaseHook) -> Capture:
    return hook._capture()


@pytest.fixture(autouse=True)
def _outside_sagemaker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMDEBUG_CONFIG_FILE_PATH", "TOCSIN_RUN", "TOCSIN", "USE_SMDEBUG"):
        monkeypatch.delenv(name, raising=False)
    del_hook()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"losses": RAW}),
        ({"include_collections": ["weights"]}, {"losses": RAW, "weights": RAW}),
        ({"save_all": True}, {"all": RAW, "losses": RAW}),
        (
            {"include_regex": ["relu"]},
            {
                "default": CollectionConfig(include_regex=("relu",), save_raw_tensor=True),
                "losses": RAW,
            },
        ),
        (
            {"reduction_config": ReductionConfig(["mean"], norms=["l2"], save_shape=True)},
            {
                "losses": CollectionConfig(
                    reductions=("mean", "l2"), save_raw_tensor=False, save_shape=True
                )
            },
        ),
    ],
)
def test_collections(options: dict[str, Any], expected: dict[str, CollectionConfig]) -> None:
    found = capture(BaseHook("out", **options))
    assert found.collections == expected
    assert (found.save_interval, dict(found.modes), found.include_workers) == (500, {}, "one")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (SaveConfig(save_interval=10), dict.fromkeys(Mode, Steps(10))),
        (SaveConfigMode(5, 1, 9, [3]), dict.fromkeys(Mode, Steps(5, 1, 9, (3,)))),
        ({modes.EVAL: SaveConfigMode(save_steps=[2])}, {Mode.EVAL: Steps(500, save_steps=(2,))}),
        ({"TRAIN": {"save_interval": 7}}, {Mode.TRAIN: Steps(7)}),
    ],
)
def test_steps(config: Any, expected: dict[Mode, Steps]) -> None:
    assert capture(BaseHook("out", save_config=config)).modes == expected
    hook = BaseHook("out")
    hook.get_collection("losses").save_config = config
    found = capture(hook)
    assert found.collections["losses"].modes == expected
    assert found.modes == {}


def test_a_collection_of_the_script() -> None:
    hook = BaseHook("out", include_collections=["mine", "weights"])
    hook.get_collection("mine").include(["relu", "tanh"])
    hook.get_collection("mine").add_tensor_name("loss.x")
    hook.get_collection("weights").include("embedding")
    hook.get_collection("not included").include("x")
    hook.add_collection(Collection("losses", reduction_config=ReductionConfig(["max"])))
    found = capture(hook).collections
    assert set(found) == {"losses", "mine", "weights"}
    assert found["mine"].include_regex == ("relu", "tanh", r"^loss\.x$")
    assert found["weights"].include_regex[-1] == "embedding"
    assert len(found["weights"].include_regex) == 2  # the built-in pattern stays
    assert found["losses"].reductions == ("max",)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ReductionConfig(["median"]), ValueError),
        (lambda: SaveConfig.parse("often"), TypeError),
        (lambda: SaveConfig({modes.TRAIN: 5}), TypeError),
        (lambda: Collection("a").include([1]), TypeError),
        (lambda: BaseHook("out").add_collection("a"), TypeError),
        (lambda: BaseHook("out").get_collection("mine", create=False), ValueError),
        (lambda: capture(BaseHook("out", include_workers="two")), ValueError),
        (lambda: BaseHook("out").save_scalar("x", np.arange(3)), TypeError),
        (lambda: BaseHook("out").set_mode(9), ValueError),
        (lambda: set_hook("hook"), TypeError),
        (lambda: BaseHook.create_from_json_file("nowhere.json"), FileNotFoundError),
        (lambda: get_hook(hook_class=BaseHook, create_if_not_exists=True), FileNotFoundError),
    ],
)
def test_what_cannot_be_used(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_the_containers_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "debughookconfig.json"
    content = {
        "LocalPath": str(tmp_path / "run"),
        "HookParameters": {"train.save_interval": "3", "reductions": "mean"},
        "CollectionConfigurations": [
            {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "2"}}
        ],
    }
    file.write_text(json.dumps(content))
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(file))
    hook = get_hook(hook_class=BaseHook, create_if_not_exists=True)
    found = capture(hook)
    assert hook.out_dir == str(tmp_path / "run")
    assert found.modes == {Mode.TRAIN: Steps(3)}
    assert found.reductions == "mean"
    assert found.collections == {
        "gradients": CollectionConfig(save_interval=2),
        "losses": CollectionConfig(),
    }


def test_what_a_script_saves(tmp_path: Path) -> None:
    hook = BaseHook(tmp_path, save_config=SaveConfig(save_interval=2), watch=None)
    hook.save_scalar("before", 1)
    assert not hook.should_stop
    hook.get_collection("losses").include("late")
    hook.set_mode(modes.EVAL)
    for step in range(4):
        hook.hook.begin()
        hook.save_scalar("each", step)
        hook.save_tensor("values", np.arange(step + 1), collections_to_write=["mine", "default"])
    hook.close()
    trial = create_trial(tmp_path)
    assert trial.modes() == [modes.EVAL]
    assert "late" in trial.collection("losses").include_regex
    assert {s: v.tolist() for s, v in trial.tensor("scalar/before").values().items()} == {0: [1]}
    assert list(trial.tensor("scalar/each").values()) == [0, 2, 3]
    assert trial.tensor("values").value(2).tolist() == [0, 1, 2]
    assert trial.tensor_names(collection="mine") == ["values"]


def test_a_script_without_steps(tmp_path: Path) -> None:
    hook = BaseHook(tmp_path / "run")
    values = np.arange(3)
    hook.save_tensor("values", values)
    values += 1
    hook.close()
    assert create_trial(tmp_path / "run").tensor("values").value(0).tolist() == [0, 1, 2]
    silent = BaseHook(tmp_path / "silent")
    silent.close()
    assert not (tmp_path / "silent").exists()


def test_the_latest_hook_is_found() -> None:
    hook = BaseHook("out")
    assert get_hook() is None
    set_hook(hook)
    assert get_hook(hook_class=BaseHook) is hook
    del_hook()
    assert get_hook() is None


def test_a_training_process_loads_no_more_than_hooks_do() -> None:
    script = (
        "import sys\n"
        "from tocsin_hooks import Hook\n"
        "Hook('memory', save_interval=1)\n"
        "before = set(sys.modules)\n"
        "import tocsin.smdebug.core.hook, tocsin.smdebug.core.singleton_utils\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert {name for name in run.stdout.split() if not name.startswith("tocsin.smdebug")} == set()
