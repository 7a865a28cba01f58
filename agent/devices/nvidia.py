"""NVIDIA cards by NVML. Written against its documentation; on a machine with a card it has not been run yet.

A card's id is its UUID, which survives reboots and reordering; its minor number names the device node. The sandbox gets the
nodes of its own cards, the control node and unified memory, and sees its cards as 0…n-1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..protocol import DeviceInfo, Metric
from .plugin import Attachment, DevicePlugin, Sample

try:
    import pynvml
except ImportError:  # the extra `gpu` is not installed
    pynvml = None

CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextlib.contextmanager
def _library() -> Iterator[Any]:
    """NVML for a moment; None without a driver."""
    if pynvml is None:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


class NvidiaCards(DevicePlugin):
    kind = "nvidia"

    def probe(self) -> list[DeviceInfo]:
        with _library() as nvml:
            if nvml is None:
                return []
            driver = _text(nvml.nvmlSystemGetDriverVersion())
            handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
            return [
                DeviceInfo(
                    id=_text(nvml.nvmlDeviceGetUUID(handle)),
                    kind=self.kind,
                    model=_text(nvml.nvmlDeviceGetName(handle)).removeprefix("NVIDIA "),
                    memory_mib=int(nvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20,
                    driver=driver,
                )
                for handle in handles
            ]

    def attach(self, ids: Sequence[str]) -> Attachment:
        nodes = [node for node in CONTROL if Path(node).exists()]
        with _library() as nvml:
            if nvml is None:
                raise OSError("the NVIDIA driver does not answer")
            for id in ids:
                nodes.append(f"/dev/nvidia{nvml.nvmlDeviceGetMinorNumber(nvml.nvmlDeviceGetHandleByUUID(id))}")
        visible = ",".join(str(i) for i in range(len(ids)))
        return Attachment(tuple((node, node) for node in nodes), {"CUDA_VISIBLE_DEVICES": visible})

    def sample(self, ids: Sequence[str]) -> dict[str, Sample]:
        samples = {}
        with _library() as nvml:
            if nvml is None:
                return {id: Sample() for id in ids}
            for id in ids:
                try:
                    handle = nvml.nvmlDeviceGetHandleByUUID(id)
                    samples[id] = Sample(
                        int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu) * 10_000,
                        int(nvml.nvmlDeviceGetMemoryInfo(handle).used) >> 20,
                        int(nvml.nvmlDeviceGetPowerUsage(handle)),
                    )
                except nvml.NVMLError:
                    samples[id] = Sample()
        return samples

    def check(self, id: str) -> str:
        with _library() as nvml:
            if nvml is None:
                return "the NVIDIA driver does not answer"
            try:
                handle = nvml.nvmlDeviceGetHandleByUUID(id)
                if nvml.nvmlDeviceGetEccMode(handle)[0] and nvml.nvmlDeviceGetTotalEccErrors(
                    handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
                ):
                    return "uncorrected memory errors since the driver was loaded"
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
                    return ""  # cards without ECC
                return str(error)
        return ""

    def benchmark(self, id: str) -> tuple[Metric, ...] | None:
        return None  # needs torch on the node; comes with the fingerprint of cards
