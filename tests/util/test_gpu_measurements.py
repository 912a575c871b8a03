"""What a node says of its GPUs, with a driver's library that is made up (contract F6.23).

The library has the functions of NVML that the node uses, compiled here from C: this shows that the
node finds it, calls it as its header says, and shows what it answers. It cannot show that NVIDIA's does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.harness import IS_HELIOSTAT, start_driver

pytestmark = [
    pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray asks pynvml, a package of its own"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]

LIBRARY = r"""
#include <stdlib.h>
#include <string.h>
typedef struct { int number; } Device;
static Device devices[2] = {{0}, {1}};
static int ready = 0;
int nvmlInit_v2(void) { ready = 1; return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 3; return ready ? 0 : 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device **device) {
    if (index > 1) return 6;  /* the third one has fallen off the bus */
    *device = &devices[index];
    return 0;
}
int nvmlDeviceGetName(Device *device, char *name, unsigned int length) {
    strncpy(name, device->number ? "Pretended B" : "Pretended A", length);
    return 0;
}
struct rates { unsigned int gpu, memory; };
int nvmlDeviceGetUtilizationRates(Device *device, struct rates *rates) {
    if (device->number) return 3;  /* not supported */
    rates->gpu = 37;
    rates->memory = 5;
    return 0;
}
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(Device *device, struct memory *memory) {
    memory->total = 141ULL << 30;
    memory->used = (3ULL + device->number) << 30;
    memory->free = memory->total - memory->used;
    return 0;
}
int nvmlDeviceGetPowerUsage(Device *device, unsigned int *milliwatts) {
    *milliwatts = 350000 + device->number;
    return 0;
}
int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned int *degrees) {
    if (device->number || sensor) return 3;
    *degrees = 41;
    return 0;
}
struct process { unsigned int pid; unsigned long long used; unsigned int gpu, compute; };
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned int *count, struct process *all) {
    if (*count < 2) return 7;
    all[0].pid = atoi(getenv("PRETENDED_PID"));  /* of the driver, in the first of the GPUs alone */
    all[0].used = 5ULL << 20;
    all[1].pid = 1;
    all[1].used = ~0ULL;  /* not known */
    *count = device->number ? 0 : 2;
    return 0;
}
struct sample { unsigned int pid; unsigned long long at; unsigned int sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(
    Device *device, struct sample *all, unsigned int *count, unsigned long long since
) {
    if (device->number) return 6;  /* nothing found */
    struct sample of_driver = {atoi(getenv("PRETENDED_PID")), 2, 25, 1, 0, 0};
    struct sample older = {of_driver.pid, 1, 99, 1, 0, 0};
    all[0] = of_driver;
    all[1] = older;
    *count = 2;
    return 0;
}
"""

DRIVER = """
import os, re, subprocess, sys, time, urllib.request
import heliostat as ray
from heliostat.core.platform import auth

os.environ["PRETENDED_PID"] = str(os.getpid())
ray.init(num_cpus=1, include_dashboard=False, _metrics_export_port=0)
(node,) = ray.nodes()
request = urllib.request.Request(
    f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics",
    headers={"Authorization": f"Bearer {auth.token(False)}"},
)
deadline = time.monotonic() + 60
while True:
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
    status = subprocess.run([sys.argv[1], "status", "-v"], capture_output=True, text=True).stdout
    # The first reading, and the heartbeat that carries it, take a moment.
    if "ray_node_gram_used" in text and "Pretended" in status:
        break
    assert time.monotonic() < deadline, text + status
    time.sleep(0.1)
for line in text.splitlines():
    found = re.match(r'ray_node_(g\\w+)\\{GpuIndex="(.)",GpuDeviceName="([^"]+)".*\\} (.*)', line)
    if found:
        print("metric=" + " ".join(found.groups()))
    found = re.match(r'ray_component_(gpu\\w+)\\{Component="(\\w+)".*\\} (.*)', line)
    if found:
        print("part=" + " ".join(found.groups()))
for line in status.splitlines():
    if "Pretended" in line:
        print("status=" + line.strip())
"""


@pytest.mark.contract("F6.04", "F6.23")
def test_the_drivers_library_is_read(tmp_path: Path) -> None:
    source = tmp_path / "nvml.c"
    source.write_text(LIBRARY)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    paths = f"{tmp_path}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    command = str(Path(sys.executable).with_name("heliostat"))
    driver = start_driver(tmp_path, DRIVER, args=[command], env={"LD_LIBRARY_PATH": paths})
    lines = driver.finish().check().stdout.splitlines()
    assert sorted(line[7:] for line in lines if line.startswith("metric=")) == [
        "gpu_power_milliwatts 0 Pretended A 350000.0",
        "gpu_power_milliwatts 1 Pretended B 350001.0",
        "gpu_temperature_celsius 0 Pretended A 41.0",
        "gpus_available 0 Pretended A 1.0",
        "gpus_available 1 Pretended B 1.0",
        "gpus_utilization 0 Pretended A 37.0",
        "gram_available 0 Pretended A 141312.0",
        "gram_available 1 Pretended B 140288.0",
        "gram_used 0 Pretended A 3072.0",
        "gram_used 1 Pretended B 4096.0",
    ]
    assert sorted(line[5:] for line in lines if line.startswith("part=")) == [
        "gpu_memory_mb driver 5.0",
        "gpu_percentage driver 25.0",
    ]
    assert [line[7:] for line in lines if line.startswith("status=")] == [
        "0 Pretended A: 37% busy, 3.00GiB/141.00GiB memory",
        "1 Pretended B: 4.00GiB/141.00GiB memory",
    ]
