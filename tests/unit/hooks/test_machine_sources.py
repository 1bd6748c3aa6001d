"""What is read of a machine: files as Linux writes them, and a library as NVIDIA's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tocsin.watch import Machine
from tocsin_hooks.machine import watching
from tocsin_hooks.machine.cgroup import Cgroup, Limit
from tocsin_hooks.machine.node import Claim, Node, this_node
from tocsin_hooks.machine.nvml import Nvml
from tocsin_hooks.machine.portable import portable_sources
from tocsin_hooks.machine.proc import Cpu, Disk, Memory, Network, Processes, RunQueue

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
    write(tmp_path, "stat", "cpu0 40 0 20 110 10 0 0 20 0 0\ncpu1 0 0 0 150 50 0 0 0 0 0\nintr 5\n")
    assert cpu() == {
        "cpu/CPUUtilization": 40.0,
        "cpu/busiest": 80.0,
        "cpu/I/OWaitPercentage": 50.0,
        "cpu/StealPercentage": 10.0,
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


def test_threads_that_wait_for_a_core(tmp_path: Path) -> None:
    for thread in ("5", "6"):
        write(tmp_path, f"5/task/{thread}/schedstat", "900 1000000000 7\n")
    queue = RunQueue(tmp_path, pid=5, every=0.0)
    queue._at -= 2.0  # as if two seconds had passed
    write(tmp_path, "5/task/6/schedstat", "900 1500000000 7\n")
    write(tmp_path, "5/task/7/schedstat", "900 1000000000 7\n")  # a new one
    write(tmp_path, "5/task/8/schedstat", "")  # one that ends
    assert queue() == {"process/runqueue": pytest.approx(50.0, rel=0.05)}
    (tmp_path / "8" / "task").mkdir(parents=True)
    with pytest.raises(OSError, match="no schedstat"):
        RunQueue(tmp_path, pid=8)


class Portable:
    """psutil, of a machine with two cores, one disk and two children of which one ends."""

    class Error(Exception):
        pass

    def __init__(self) -> None:
        self.count = 0
        self.disks = True

    def cpu_percent(self, percpu: bool) -> list[float]:
        return [10.0, 90.0]

    def virtual_memory(self) -> Any:
        return SimpleNamespace(percent=42.0)

    def disk_io_counters(self) -> Any:
        self.count += 50
        count = dict.fromkeys(("read_count", "write_count", "read_bytes"), self.count)
        return SimpleNamespace(**count, write_bytes=3 * self.count) if self.disks else None

    def net_io_counters(self, pernic: bool) -> Any:
        self.count += 50
        loopback = SimpleNamespace(bytes_recv=10**9, bytes_sent=10**9)
        cable = SimpleNamespace(bytes_recv=2 * self.count, bytes_sent=self.count)
        return {"lo0": loopback, "Loopback Pseudo-Interface 1": loopback, "en0": cable}

    def Process(self, pid: int) -> Any:  # noqa: N802 - its name
        self.count += 1
        child, ended = self._process(2), self._process(3)
        ended.memory_info = self._ended
        return self._process(pid, [child, ended])

    def _process(self, pid: int, children: Sequence[Any] = ()) -> Any:
        return SimpleNamespace(
            pid=pid,
            children=lambda recursive: list(children),
            cpu_times=lambda: SimpleNamespace(user=float(self.count), system=1.0),
            memory_info=lambda: SimpleNamespace(rss=1000),
        )

    def _ended(self) -> Any:
        raise self.Error


def test_without_proc_psutil_gives_the_same_series() -> None:
    library = Portable()
    makers = portable_sources(pid=1, every=0.0, library=library)
    cpu, memory, disk, network, processes = (make() for make in makers)
    assert cpu() == {"cpu/CPUUtilization": 50.0, "cpu/busiest": 90.0}
    assert memory() == {"memory/MemoryUsedPercent": 42.0}
    found = disk()
    assert found["i/o/IOPS"] == pytest.approx(2 * found["i/o/ReadThroughputInBytesPerSecond"])
    library.disks = False
    assert disk() == {}
    sent = network()
    assert 0 < sent["network/TransmitBytesPerSecond"] < 10**8  # without the loopback
    assert processes() == {"process/rss": 2000.0, "process/workers": 1.0}
    library.count += 3
    assert processes()["process/cpu"] > 0
    assert len(portable_sources(processes=False, library=library)) == 4


def test_a_host_without_proc_is_sampled_with_psutil(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watching, "PROC", tmp_path / "none")
    monkeypatch.setitem(sys.modules, "psutil", None)  # not installed
    own = [*watching._sources(Machine(gpu=False), 0, 5.0)]
    assert [type(each).__name__ for each in own] == ["method"]  # the container's limits alone
    assert "pip install psutil" in caplog.text
    monkeypatch.setitem(sys.modules, "psutil", Portable())
    own = [*watching._sources(Machine(gpu=False), 0, 5.0)]
    assert {each.__module__ for each in own[:5]} == {"tocsin_hooks.machine.portable"}


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
            "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=0),
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


class Hopper(Library):
    """The library with GPM: of two samples it gives the difference; the second GPU is older."""

    NVML_GPM_METRICS_GET_VERSION, NVML_GPM_METRIC_SM_UTIL = 1, 2

    def __init__(self) -> None:
        super().__init__()
        self.samples = 0.0

    def nvmlGpmQueryDeviceSupport(self, device: str) -> Any:  # noqa: N802 - its name
        return SimpleNamespace(isSupportedDevice=device == "handle 0")

    def nvmlGpmSampleAlloc(self) -> Any:  # noqa: N802
        return SimpleNamespace(value=0.0)

    def nvmlGpmSampleGet(self, device: str, sample: Any) -> Any:  # noqa: N802
        self.samples += 10.0
        sample.value = self.samples**2
        return sample

    def c_nvmlGpmMetricsGet_t(self) -> Any:  # noqa: N802
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, nvmlReturn=1, value=0.0)])

    def nvmlGpmMetricsGet(self, request: Any) -> Any:  # noqa: N802
        (metric,) = request.metrics
        assert (request.version, request.numMetrics, metric.metricId) == (1, 1, 2)
        assert request.sample1 is not request.sample2
        metric.value = (request.sample2.value - request.sample1.value) / 10
        metric.nvmlReturn = 0 if metric.value < 60 else 1
        return request


def test_active_multiprocessors_on_hopper() -> None:
    library = Hopper()
    nvml = Nvml(library)
    found = nvml()
    assert found["gpu0/SMActive"] == 30.0
    assert "gpu1/SMActive" not in found  # an older GPU
    nvml._next_second = 0.0
    assert nvml()["gpu0/SMActive"] == 50.0  # since the reading before
    nvml._next_second = 0.0
    assert "gpu0/SMActive" not in nvml()  # the library could not tell


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
