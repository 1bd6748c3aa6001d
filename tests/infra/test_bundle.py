from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tocsin_cdk import bundle
from tocsin_cdk.bundle import BundleError, Platform, lambda_target, local_target, staged_layer
from tocsin_cdk.constants import TOCSIN

TARGET = Platform("lambda-arm64-3.13", sys.executable)
FILES = {
    "numpy/__init__.py": "",
    "numpy/__init__.pyi": "x: int",
    "numpy/tests/test_numpy.py": "",
    "numpy/__pycache__/x.pyc": "",
    "numpy/docs.js": "",
    "numpy-2.dist-info/entry_points.txt": "[tocsin.rules]",
    "numpy-2.dist-info/RECORD": "",
    "bin/f2py": "",
}


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Puts a few files where pip would, and says how often."""
    calls: list[str] = []

    def install(target: Platform, folder: Path) -> None:
        calls.append(target.name)
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    monkeypatch.setattr(bundle, "_pip_install", install)
    return calls


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "tocsin"
    folder.mkdir()
    (folder / "model.py").write_text("x = 1")
    return folder


def test_the_layer_holds_what_is_imported_and_no_more(
    installs: list[str], code: Path, tmp_path: Path
) -> None:
    with staged_layer(TARGET, {"tocsin": code}, tmp_path / "cache") as (folder, _):
        files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "python/numpy/__init__.py",
        "python/numpy-2.dist-info/entry_points.txt",
        "python/tocsin/model.py",
    }
    assert not folder.exists()


def test_packages_are_installed_once_and_our_code_each_time(
    installs: list[str], code: Path, tmp_path: Path
) -> None:
    def digest() -> str:
        with staged_layer(TARGET, {"tocsin": code}, tmp_path / "cache") as (_, digest):
            return digest

    first = digest()
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "model.pyc").write_text("")
    assert digest() == first
    (code / "model.py").write_text("x = 2")
    assert digest() != first
    assert installs == [TARGET.name]


def test_a_layer_is_the_same_byte_for_byte_when_built_again(
    installs: list[str], code: Path, tmp_path: Path
) -> None:
    def built(cache: str) -> tuple[str, list[tuple[str, int, bytes]]]:
        with staged_layer(TARGET, {"tocsin": code}, tmp_path / cache) as (folder, digest):
            return digest, [
                (path.relative_to(folder).as_posix(), path.stat().st_mode, path.read_bytes())
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            ]

    assert built("one") == built("another")
    assert installs == [TARGET.name] * 2


def test_pip_installs_only_files_whose_hashes_are_known() -> None:
    lines = bundle.REQUIREMENTS.read_text().splitlines()
    pinned = [at for at, line in enumerate(lines) if "==" in line]
    assert len(pinned) >= 9
    for at in pinned:
        assert lines[at + 1].strip().startswith("--hash=sha256:"), lines[at]


def test_a_layer_that_is_too_large_is_refused(
    installs: list[str], code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "SIZE_LIMIT", 10)
    layer = staged_layer(TARGET, {"tocsin": code}, tmp_path / "cache")
    with pytest.raises(BundleError, match=r"lambda-arm64-3\.13 is 0 MB unzipped, the limit is 0"):
        layer.__enter__()


def test_what_pip_says_last_is_passed_on(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "Looking\nERROR: No match for numpy\n")

    monkeypatch.setattr(subprocess, "run", fail)
    layer = staged_layer(TARGET, {"tocsin": code}, tmp_path / "cache")
    with pytest.raises(BundleError, match=r"for lambda-arm64-3\.13: ERROR: No match for numpy"):
        layer.__enter__()
    assert not list((tmp_path / "cache").iterdir())


def test_a_local_target_is_named_after_its_interpreter() -> None:
    name = local_target(Path(sys.executable)).name
    assert name.startswith(f"local-{sys.implementation.cache_tag}-")


def test_an_interpreter_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="give the path of a Python interpreter"):
        local_target(tmp_path)


def test_a_function_without_a_handler_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"no handler\.py"):
        bundle.staged_function(tmp_path, {}).__enter__()


def test_the_real_layer_is_small_and_for_lambdas_processor() -> None:
    """Installs the real packages for Lambda on arm64; from the second time on, from the cache."""
    target = lambda_target("arm64")
    with staged_layer(target, {"tocsin": TOCSIN}) as (folder, _):
        files = [path for path in folder.rglob("*") if path.is_file()]
        libraries = [path for path in files if ".so" in path.suffixes]
        machines = {path.read_bytes()[18:20] for path in libraries}
        assert sum(path.stat().st_size for path in files) < bundle.SIZE_LIMIT
        assert machines == {b"\xb7\x00"}  # EM_AARCH64 in the ELF header
        assert any("cpython-313-aarch64" in path.name for path in libraries)
        assert (folder / "python" / "tocsin" / "model.py").is_file()
        assert list((folder / "python").glob("numpy-*.dist-info/METADATA"))
