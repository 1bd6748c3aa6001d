"""What is read of a machine: files as Linux writes them, and a library as NVIDIA's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tocsin_hooks.machine.cgroup import Cgroup, Limit
from tocsin_hooks.machine.node import Claim, Node, this_node
from tocsin_hooks.machine.nvml import Nvml
from tocsin_hooks.machine.proc import Cpu, Disk, Memory, Network, Processes

DISKS = """\
   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9
 259       0 nvme0n1 {reads} 0 {sectors} 0 {writes} 0 {written} 0 0 0 0
 259       1 nvme0n1p1 5 0 5 0 5 0 5 0 0 0 0
"""
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes
    lo: 99999 1 0 0 0 0 0 0 99999 1 0 0 0 0 0 0
  eth0: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0
"""


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_processors(tmp_path: Path) -> None:
    write(tmp_path, "stat", "cpu 0 0 0 0\ncpu0 0 0 0 100 0 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\n")
    cpu = Cpu(tmp_path)
    write(tmp_path, "stat", "cpu0 60 0 20 110 10 0 0 0 0 0\ncpu1 0 0 0 150 50 0 0 0 0 0\nintr 5\n")
    assert cpu() == {
        "cpu/CPUUtilization": 40.0,
        "cpu/busiest": 80.0,
        "cpu/I/OWaitPercentage": 50.0,
    }
    assert cpu() == {}  # no time has passed
    write(tmp_path, "stat", "cpu0 60 0 20 110 10 0 0 0 0 0\n")
    assert cpu() == {}  # a core was switched off


def test_memory_is_that_of_the_container_where_it_has_less(tmp_path: Path) -> None:
    write(tmp_path, "meminfo", "MemTotal: 1000 kB\nMemFree: 5 kB\nMemAvailable: 700 kB\n")
    assert Memory(tmp_path)() == {"memory/MemoryUsedPercent": pytest.approx(30.0)}
    limited = Memory(tmp_path, lambda: Limit(memory=90.0))
    assert limited() == {"memory/MemoryUsedPercent": 90.0}


def test_disks_and_network_are_rates(tmp_path: Path) -> None:
    write(tmp_path, "diskstats", DISKS.format(reads=0, sectors=0, writes=0, written=0))
    write(tmp_path, "net/dev", NET.format(received=0, sent=0))
    disk, network = Disk(tmp_path), Network(tmp_path)
    write(tmp_path, "diskstats", DISKS.format(reads=30, sectors=4, writes=10, written=8))
    write(tmp_path, "net/dev", NET.format(received=500, sent=250))
    read = disk()
    assert read["i/o/IOPS"] > 0
    ratio = read["i/o/ReadThroughputInBytesPerSecond"] / read["i/o/IOPS"]
    assert ratio == pytest.approx(4 * 512 / 40)
    sent = network()
    assert sent["network/ReceiveBytesPerSecond"] == pytest.approx(
        2 * sent["network/TransmitBytesPerSecond"]
    )


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="there is no /proc")
def test_a_process_counts_with_its_children() -> None:
    program = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as child:
        alone, both = Processes(pid=child.pid)(), Processes(pid=os.getpid())()
        child.communicate()
    assert alone["process/workers"] == 0
    assert both["process/workers"] >= 1
    assert both["process/rss"] > alone["process/rss"] > 0
    with pytest.raises(OSError, match=str(child.pid)):
        Processes(pid=child.pid)()


def test_limits_of_a_container(tmp_path: Path) -> None:
    for name, text in {
        "memory.max": "1000",
        "memory.current": "900",
        "memory.stat": "anon 5\ninactive_file 400\n",
        "cpu.max": "200000 100000",
        "cpu.stat": "usage_usec 0\nnr_periods 0\nnr_throttled 0\n",
    }.items():
        write(tmp_path, name, text)
    group = Cgroup(tmp_path, tmp_path)
    assert group() == Limit(memory=50.0)
    group._at -= 1.0  # as if a second had passed
    group._before = (group._before[0] - 1.0, 0, 0, 0)  # type: ignore[index]
    write(tmp_path, "cpu.stat", "usage_usec 1000000\nnr_periods 10\nnr_throttled 4\n")
    found = group.values()
    assert found["cgroup/CPUUtilization"] == pytest.approx(50.0, rel=0.2)
    assert found["cgroup/throttled"] == pytest.approx(0.4)


def test_limits_of_an_older_container(tmp_path: Path) -> None:
    write(tmp_path, "memory/memory.limit_in_bytes", "1000")
    write(tmp_path, "memory/memory.usage_in_bytes", "800")
    assert Cgroup(tmp_path, tmp_path)() == Limit(memory=80.0)
    write(tmp_path, "memory/memory.limit_in_bytes", str(1 << 62))
    assert Cgroup(tmp_path, tmp_path)() == Limit()


def test_a_container_without_files_has_no_limits(tmp_path: Path) -> None:
    assert Cgroup(tmp_path, tmp_path).values() == {}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-2"}, ("algo-2", 2, False)),
        ({"GROUP_RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, ("node_0", 2, True)),
        ({"SLURM_NODEID": "3", "SLURM_NNODES": "4"}, ("node_3", 4, False)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "9",
                "OMPI_COMM_WORLD_SIZE": "16",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "8",
            },
            ("node_1", 2, False),
        ),
        ({"SM_HOSTS": "not JSON", "GROUP_RANK": "x", "SLURM_NODEID": "1"}, ("node_1", 1, False)),
    ],
)
def test_the_node_is_named_by_whoever_started_the_job(environ: Any, expected: Any) -> None:
    assert this_node(environ) == Node(*expected)


def test_without_a_name_it_is_the_host() -> None:
    node = this_node({})
    assert node.name
    assert (node.count, node.first) == (1, True)


def test_one_process_of_a_node_samples() -> None:
    run = f"a run of {os.getpid()}"
    first = Claim(run, {})
    assert first.granted
    assert not Claim(run, {}).granted
    assert not Claim("another", {"LOCAL_RANK": "1"}).granted
    first.release()
    again = Claim(run, {"LOCAL_RANK": "0"})
    assert again.granted
    again.release()


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class Library:
    """NVIDIA's library with two GPUs; ``failing`` maps a function to the error that it raises."""

    NVMLError = NVMLError
    NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_TIMEOUT = 3, 15, 10
    NVML_TEMPERATURE_GPU = NVML_MEMORY_ERROR_TYPE_UNCORRECTED = NVML_VOLATILE_ECC = 0
    nvmlEventTypeXidCriticalError = 8  # noqa: N815 - its name

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.ecc = 5
        self.xids: list[Any] = []
        self.reasons = 0x4

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=80, memory=20),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=30, total=40),
            "nvmlDeviceGetPowerUsage": 250_000,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetCurrentClocksThrottleReasons": self.reasons,
            "nvmlDeviceGetTotalEccErrors": self.ecc,
            "nvmlDeviceGetRemappedRows": (0, 1, 0, 0),
            "nvmlDeviceGetPcieReplayCounter": 2,
            "nvmlEventSetCreate": "events",
            "nvmlDeviceRegisterEvents": None,
        }

        def call(*arguments: Any) -> Any:
            if name in self.failing:
                raise NVMLError(self.failing[name])
            if name == "nvmlDeviceGetHandleByIndex":
                return f"handle {arguments[0]}"
            if name == "nvmlDeviceGetUUID":
                return f"GPU-{arguments[0][-1]}aaa"
            if name == "nvmlEventSetWait_v2":
                if not self.xids:
                    raise NVMLError(self.NVML_ERROR_TIMEOUT)
                return self.xids.pop()
            return answers[name]

        return call


@pytest.fixture(autouse=True)
def _all_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_gpus_are_sampled() -> None:
    found = Nvml(Library())()
    assert {name: value for name, value in found.items() if name.startswith("gpu1/")} == {
        "gpu1/GPUUtilization": 80.0,
        "gpu1/GPUMemoryUtilization": 20.0,
        "gpu1/MemoryUsedPercent": 75.0,
        "gpu1/Power": 250.0,
        "gpu1/Temperature": 61.0,
        "gpu1/Slowdown": 0.0,  # a power cap is none
        "gpu1/ECCUncorrectable": 0.0,  # old errors are old
        "gpu1/RowsUncorrectable": 0.0,
        "gpu1/RowsPending": 0.0,
        "gpu1/PCIeReplays": 0.0,
    }


@pytest.mark.parametrize(
    ("visible", "numbers"), [("1", {"gpu1"}), ("GPU-0a", {"gpu0"}), ("1,0", {"gpu0", "gpu1"})]
)
def test_only_visible_gpus_are_sampled(visible: str, numbers: set[str]) -> None:
    found = Nvml(Library(), visible)()
    assert {name.partition("/")[0] for name in found} == numbers


def test_new_errors_and_slowdowns_show() -> None:
    library = Library()
    nvml = Nvml(library)
    nvml()
    library.ecc, library.reasons = 7, 0x44
    library.xids = [SimpleNamespace(device="handle 1", eventData=79)]
    nvml._next_second = nvml._next_slow = 0.0
    found = nvml()
    assert found["gpu0/ECCUncorrectable"] == 2.0
    assert found["gpu0/Slowdown"] == 1.0
    assert found["gpu1/XID"] == 79.0


def test_what_a_gpu_does_not_support_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    library = Library()
    library.failing = {"nvmlDeviceGetTemperature": 3, "nvmlEventSetCreate": 3}
    found = Nvml(library)()
    assert "gpu0/Temperature" not in found
    assert found["gpu0/Power"] == 250.0
    assert not caplog.records


def test_a_gpu_that_falls_off_the_bus_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    library = Library()
    nvml = Nvml(library)
    library.failing = dict.fromkeys(["nvmlDeviceGetUtilizationRates"], 15)
    assert nvml()["gpu0/Lost"] == 1.0
    assert nvml()["gpu0/Lost"] == 1.0
    assert [record.message for record in caplog.records] == [
        "GPU 0 cannot be read: error 15",
        "GPU 1 cannot be read: error 15",
    ]


@pytest.mark.parametrize("failing", ["nvmlInit", "nvmlDeviceGetCount"])
def test_without_a_driver_there_are_no_gpus(failing: str) -> None:
    library = Library()
    library.failing = {failing: 9}
    with pytest.raises(OSError, match="NVML: error 9"):
        Nvml(library)


def test_no_gpu_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(OSError, match="no GPU is visible"):
        Nvml(Library())


def test_a_real_gpu() -> None:
    pytest.importorskip("pynvml", reason="the package nvidia-ml-py is not installed")
    try:
        nvml = Nvml()
    except OSError as error:
        pytest.skip(str(error))
    assert any(name.endswith("/GPUUtilization") for name in nvml())
