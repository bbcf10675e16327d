"""What can be known of a training's surroundings without measuring."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from tensight.frameworks.torch.wrappers import is_compiled
from tensight.records.timing import Fact

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
SIDE = 1024  # of the matrices whose product shows what the device can do
_DDP = (
    "avg_forward_compute_time",
    "avg_backward_compute_time",
    "avg_backward_comm_time",
    "avg_backward_compute_comm_overlap_time",
)


def memory() -> int:
    """Bytes of this process that are in memory; 0 where that is not told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def cores() -> int:
    """Processors that this process may use."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def environment(models: Sequence[nn.Module]) -> dict[str, Fact]:
    parameters = [parameter for model in models for parameter in model.parameters()]
    devices = {parameter.device.type for parameter in parameters}
    layers = [module for model in models for module in model.modules()]
    return {
        "device": next(iter(sorted(devices - {"cpu"})), "cpu"),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "anomaly": torch.is_anomaly_enabled(),
        "parameters": sum(parameter.numel() for parameter in parameters),
        "parameter_tensors": len(parameters),
        "double_parameters": sum(parameter.dtype is torch.float64 for parameter in parameters),
        "half_parameters": sum(parameter.dtype in (torch.float16, torch.bfloat16) for parameter in parameters),
        "convolutions": sum(isinstance(layer, nn.Conv2d) for layer in layers),
        "sync_batch_norms": sum(isinstance(layer, nn.SyncBatchNorm) for layer in layers),
        "data_parallel": max((len(m.device_ids) for m in layers if isinstance(m, nn.DataParallel)), default=0),
        "compiled": any(is_compiled(model) for model in models),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "blocking": os.environ.get("CUDA_LAUNCH_BLOCKING", "") == "1",
        "amx": "amx_tile" in _processor_flags(),
        "avx512_bf16": "avx512_bf16" in _processor_flags(),
        "device_memory": _device_memory(),
    }


def peak(models: Sequence[nn.Module]) -> float:
    """Floating-point operations a second of one large matrix product here, with the model's dtype and threads.

    >>> peak([nn.Linear(2, 2)]) > 0
    True
    """
    first = next((one for model in models for one in model.parameters() if one.is_floating_point()), None)
    if first is None:
        return 0.0
    device, alone = first.device, first.device.type == "cpu" and torch.get_num_threads() == 1
    # one thread's own processor time leaves out what else runs here
    look = time.thread_time if alone else time.perf_counter
    best = float("inf")
    with torch.no_grad():
        one = torch.ones(SIDE, SIDE, device=device, dtype=first.dtype)
        for _ in range(4):  # the first one warms up
            began = look()
            torch.mm(one, one)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            best = min(best, look() - began)
    return 2 * SIDE**3 / best if best > 0 else 0.0


def replicas(models: Sequence[nn.Module]) -> dict[str, Fact]:
    """What DistributedDataParallel measures of itself, in seconds; it samples some of the first steps."""
    found: dict[str, Fact] = {}
    for model in models:
        ask = getattr(model, "_get_ddp_logging_data", None)
        if ask is None:
            continue
        with contextlib.suppress(Exception):
            data: dict[str, Any] = ask()
            for name in _DDP:
                if isinstance(data.get(name), int):
                    found[f"ddp.{name[4:-5]}"] = data[name] / 1e9
            for name in ("bucket_sizes", "rebuilt_bucket_sizes", "bucket_cap_bytes", "backend_name", "module_name"):
                if data.get(name) not in (None, ""):
                    found[f"ddp.{name}"] = str(data[name]) if isinstance(data[name], str) else int(data[name])
            for name in ("gradient_as_bucket_view", "static_graph", "find_unused_parameters", "world_size"):
                if name in data:
                    found[f"ddp.{name}"] = int(data[name])
    return found


def _device_memory() -> int:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        free, total = torch.cuda.mem_get_info()
        return int(100 * (total - free) / total)
    return 0


def _processor_flags() -> frozenset[str]:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("flags"):
                return frozenset(line.split())
    return frozenset()
