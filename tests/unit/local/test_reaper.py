from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from local.reaper import Reaper
from tests.waiting import PATIENCE, becomes

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(3600)
"""

PARENT = """
import subprocess, sys, time
grandchild = "import time; print('up', flush=True); time.sleep(3600)"
child = subprocess.Popen([sys.executable, "-c", grandchild], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(3600)
"""

OWNER = f"""
import sys, time
from pathlib import Path
from local.reaper import Reaper
reaper = Reaper()
folder = reaper.folder("test")
process = reaper.start([sys.executable, "-c", {PARENT!r}], environment={{}}, folder=folder,
                       log=folder / "log")
while not (folder / "log").read_text().endswith("\\n"):
    time.sleep(0.01)
print(folder, process.pid, (folder / "log").read_text(), flush=True)
time.sleep(3600)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def start(reaper: Reaper, code: str, folder: Path) -> subprocess.Popen[bytes]:
    process = reaper.start(
        [sys.executable, "-c", code], environment={}, folder=folder, log=folder / "log"
    )
    assert becomes(lambda: (folder / "log").read_bytes().endswith(b"\n"))
    return process


def test_the_end_of_the_block_kills_processes_and_removes_folders() -> None:
    with Reaper() as reaper:
        folder = reaper.folder("test")
        process = start(reaper, PARENT, folder)
        grandchild = int((folder / "log").read_text())
        assert folder.stat().st_mode & 0o077 == 0
        assert alive(grandchild)

    assert process.wait(PATIENCE) == -signal.SIGKILL
    assert becomes(lambda: not alive(grandchild))
    assert not folder.exists()


@pytest.mark.parametrize("death", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_owner_however_it_dies(death: signal.Signals) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    folder, *pids = owner.stdout.readline().split()
    assert len(pids) == 2
    assert all(alive(int(pid)) for pid in pids)

    owner.send_signal(death)
    owner.communicate()

    assert becomes(lambda: not any(alive(int(pid)) for pid in pids))
    assert becomes(lambda: not Path(folder).exists())


def test_stop_kills_what_ignores_sigterm_after_the_grace_time(
    reaper: Reaper, tmp_path: Path
) -> None:
    process = start(reaper, STUBBORN, tmp_path)
    began = time.monotonic()
    assert reaper.stop(process, grace=0.3) == -signal.SIGKILL
    assert time.monotonic() - began >= 0.3


def test_stop_ends_at_once_what_obeys(reaper: Reaper, tmp_path: Path) -> None:
    process = start(reaper, "import time; print(flush=True); time.sleep(3600)", tmp_path)
    assert reaper.stop(process, grace=PATIENCE) == -signal.SIGTERM


def test_finish_kills_what_the_process_left_behind(reaper: Reaper, tmp_path: Path) -> None:
    leaves_a_child = PARENT.replace("time.sleep(3600)\n", "sys.exit(7)\n").replace(
        "sys.exit(7)\nchild", "time.sleep(3600)\nchild"
    )
    process = start(reaper, leaves_a_child, tmp_path)
    assert process.wait(PATIENCE) == 7
    grandchild = int((tmp_path / "log").read_text())
    assert alive(grandchild)
    assert reaper.finish(process) == 7
    assert becomes(lambda: not alive(grandchild))


def test_a_command_that_does_not_exist_is_an_oserror(reaper: Reaper, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        reaper.start(["no-such-command"], environment={}, folder=tmp_path, log=tmp_path / "log")


def test_the_process_gets_the_given_environment_and_no_other(
    reaper: Reaper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    code = "import os; print(sorted(k for k in os.environ if k != 'LC_CTYPE'))"
    process = reaper.start(
        [sys.executable, "-c", code],
        environment={"ONLY": "this"},
        folder=tmp_path,
        log=tmp_path / "log",
    )
    assert process.wait(PATIENCE) == 0
    assert (tmp_path / "log").read_text() == "['ONLY']\n"
    assert os.environ["AWS_PROFILE"] == "production"
