"""Makes the folders to upload: the layer, and each function with its files.

pip installs packages for the machine that will run them, without Docker. They are kept under
``.cache/``, by requirements and platform; only our own code is copied each time. All users may read
the files, whatever the umask is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tocsin_cdk.constants import CACHE as CACHES
from tocsin_cdk.constants import PACKAGE, PYTHON

CACHE = CACHES / "layer"
REQUIREMENTS = PACKAGE / "layer-requirements.txt"
SIZE_LIMIT = 60_000_000  # bytes unzipped; Lambda's own limit, for all layers, is 250 MiB

_LITTER = shutil.ignore_patterns("__pycache__", "*.pyc")
_TRIMMED_FOLDERS = ("__pycache__", "tests", "test", "_pyinstaller")
_TRIMMED_FILES = (
    *("*.pyi", "*.pyc", "*.pxd", "*.pyx", "*.c", "*.h", "*.a", "*.js", "*.css"),
    "*.dist-info/RECORD",
)


class BundleError(RuntimeError):
    """A layer cannot be built; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Platform:
    """The machine and Python that packages are installed for.

    python: the interpreter whose pip installs them.
    options: of pip, beside the requirements.
    """

    name: str
    python: str
    options: tuple[str, ...] = ()


def lambda_target(architecture: str) -> Platform:
    """Lambda's Python on ``arm64`` or ``x86_64``."""
    machine = {"arm64": "aarch64", "x86_64": "x86_64"}[architecture]
    platforms = (f"manylinux_2_28_{machine}", f"manylinux2014_{machine}")
    return Platform(
        f"lambda-{architecture}-{PYTHON}",
        sys.executable,
        (
            "--only-binary=:all:",
            *(word for platform in platforms for word in ("--platform", platform)),
            *("--python-version", PYTHON, "--implementation", "cp"),
        ),
    )


def local_target(python: Path) -> Platform:
    """Return an interpreter on this machine."""
    ask = "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())"
    try:
        answer = subprocess.run(  # noqa: S603
            [python, "-c", ask], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise BundleError(
            f"tocsin:localPython={python} does not run: give the path of a Python interpreter"
        ) from error
    return Platform("local-" + "-".join(answer.stdout.split()), str(python))


@contextmanager
def staged_layer(
    target: Platform, folders: Mapping[str, Path], cache: Path = CACHE
) -> Iterator[tuple[Path, str]]:
    """Yield the layer's folder and a hash of its contents. The folder is removed after the block.

    ``folders`` are our own packages: the name in the layer, and the source.
    """
    installed = _installed(target, cache)
    digest = hashlib.sha256(installed.name.encode())
    with tempfile.TemporaryDirectory(dir=cache, prefix="staged-") as scratch:
        packages = Path(scratch) / "python"
        shutil.copytree(installed, packages, copy_function=_link)
        for name, folder in folders.items():
            shutil.copytree(folder, packages / name, ignore=_LITTER)
        _make_readable(packages)
        for name in folders:
            digest.update(_fingerprint(packages / name))
        _check_size(packages, target)
        yield Path(scratch), digest.hexdigest()


@contextmanager
def staged_function(folder: Path, files: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield a copy of a function's folder, and its hash. The copy is removed after the block.

    ``files`` (name, text) are added beside the handler.
    """
    if not (folder / "handler.py").is_file():
        raise BundleError(f"{folder} has no handler.py: run from a complete checkout")
    with tempfile.TemporaryDirectory(prefix="tocsin-function-") as scratch:
        copy = Path(scratch) / folder.name
        shutil.copytree(folder, copy, ignore=_LITTER)
        for name, text in files.items():
            (copy / name).write_text(text, encoding="utf-8")
        _make_readable(copy)
        yield copy, _fingerprint(copy).hex()


def _installed(target: Platform, cache: Path) -> Path:
    """The packages of the requirements file, installed and trimmed."""
    recipe = [target.name, *target.options, *_TRIMMED_FOLDERS, *_TRIMMED_FILES]
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + "\0".join(recipe).encode()).hexdigest()[:16]
    folder = cache / f"{target.name}-{key}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="install-") as scratch:
        packages = Path(scratch) / "packages"
        _pip_install(target, packages)
        _trim(packages)
        try:
            packages.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder


def _pip_install(target: Platform, folder: Path) -> None:
    command = [
        *(target.python, "-m", "pip", "install", "--quiet", "--no-input"),
        *("--disable-pip-version-check", "--no-compile", "--target", str(folder)),
        *(*target.options, "-r", str(REQUIREMENTS)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        why = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise BundleError(
            f"pip cannot install {REQUIREMENTS.name} for {target.name}: {why} "
            "(is the package index reachable, and is there a wheel for this target?)"
        )


def _trim(packages: Path) -> None:
    """Remove files that nothing imports at run time.

    The dist-info folders stay: they hold licences, and the entry points of other packages' rules.
    """
    for name in _TRIMMED_FOLDERS:
        for folder in sorted(packages.rglob(name)):
            shutil.rmtree(folder, ignore_errors=True)
    for pattern in _TRIMMED_FILES:
        for file in packages.rglob(pattern):
            file.unlink()
    shutil.rmtree(packages / "bin", ignore_errors=True)


def _check_size(packages: Path, target: Platform) -> None:
    size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
    if size >= SIZE_LIMIT:
        raise BundleError(
            f"the layer for {target.name} is {size / 1e6:.0f} MB unzipped, the limit is "
            f"{SIZE_LIMIT / 1e6:.0f}: take packages out of {REQUIREMENTS.name}"
        )


def _make_readable(folder: Path) -> None:
    """Set the mode of each file to 0644, or 0755 if it is executable, and of folders to 0755.

    The CDK's zip has the files only, with these modes, and Lambda reads them as another user.
    """
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)


def _fingerprint(folder: Path) -> bytes:
    """A hash of names, modes and contents, without times and folders.

    The CDK does not upload an asset whose hash is in the bucket, so the mode has to be in the hash.
    """
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        mode = file.stat().st_mode & 0o777
        digest.update(f"{file.relative_to(folder).as_posix()} {mode:o} {content}\n".encode())
    return digest.digest()


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)
