"""How fast the statistics kernel reads memory, beside a bare float32 `torch.sum`.

    python benchmarks/statistics_speed.py [--json] [--megabytes 64] [--rounds 7]

One thread. Ways are measured in turn, round after round, and the best CPU time of each counts: on a shared machine,
wall-clock time measures the neighbours. 'ratio' is bytes per second of the kernel against bytes per second of the
float32 sum; 'within' its lowest and highest ratio over the rounds. The aims are the project's own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch

from tensight.records import Needs
from tensight.stats import native

AIMS = {"float32": 0.75, "bfloat16": 0.60, "float32, a NaN in every block": 0.50, "float32, all NaN": 0.50}


def tensors(megabytes: int) -> dict[str, torch.Tensor]:
    """The data: 64 MB is more than most caches hold."""
    size = megabytes << 20
    made: dict[str, torch.Tensor] = {}
    clean = torch.randn(size // 4)
    made["float32"] = clean
    made["bfloat16"] = torch.randn(size // 2).bfloat16()
    spoiled = clean.clone()
    spoiled[::1024] = float("nan")
    made["float32, a NaN in every block"] = spoiled
    made["float32, all NaN"] = torch.full((size // 4,), float("nan"))
    made["float32, subnormal"] = clean * 1e-40
    made["float16"] = torch.randn(size // 2).half()
    made["float64"] = torch.randn(size // 8, dtype=torch.float64)
    made["float8_e4m3fn"] = torch.randn(size).to(torch.float8_e4m3fn)
    made["int64"] = torch.randint(-1000, 1000, (size // 8,))
    made["bool"] = torch.rand(size) > 0.5
    side = int((size // 4) ** 0.5)
    made["float32, transposed"] = clean[: side * side].view(side, side).t()
    made["float32, every second"] = clean[::2]
    return made


def ways(megabytes: int) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Name → (bytes read, what to call)."""
    made = tensors(megabytes)
    measured: dict[str, tuple[int, Callable[[], Any]]] = {}
    clean = made["float32"]
    measured["torch.sum, float32"] = (clean.nbytes, clean.sum)
    for name, tensor in made.items():
        measured[name] = (tensor.nbytes, _kernel_call(tensor))
    ranges = Needs(ranges=((-1.0, 0.0),))
    measured["float32, one range"] = (clean.nbytes, _kernel_call(clean, ranges))
    before = clean * 1.0001
    measured["float32, change against a copy"] = (2 * clean.nbytes, _kernel_call(clean, None, before))
    return measured


def _kernel_call(
    tensor: torch.Tensor, needs: Needs | None = None, before: torch.Tensor | None = None
) -> Callable[[], Any]:
    code = native.DTYPES[str(tensor.dtype).removeprefix("torch.")]
    earlier = None if before is None else before.data_ptr()
    if tensor.is_contiguous():
        return lambda: (native.contiguous(tensor.data_ptr(), code, tensor.numel(), needs, earlier), before)
    return lambda: native.one(tensor.data_ptr(), code, tensor.shape, tensor.stride(), needs, earlier)


def measure(megabytes: int, rounds: int) -> list[dict[str, Any]]:
    """Rows of the table: the sum itself first."""
    seconds: dict[str, list[float]] = {}
    todo = ways(megabytes)
    for round_number in range(rounds + 1):
        for name, (_, call) in todo.items():
            start = time.thread_time()
            call()
            if round_number:  # the first touches fresh memory
                seconds.setdefault(name, []).append(time.thread_time() - start)
    base_bytes = todo["torch.sum, float32"][0]
    base = [base_bytes / s for s in seconds["torch.sum, float32"]]
    rows = []
    for name, (size, _) in todo.items():
        speeds = [size / s for s in seconds[name]]
        per_round = sorted(speed / other for speed, other in zip(speeds, base))
        rows.append(
            {
                "what": name,
                "gigabytes_per_second": max(speeds) / 1e9,
                "ratio": max(speeds) / max(base),
                "within": [per_round[0], per_round[-1]],
                "aim": AIMS.get(name),
            }
        )
    return rows


def call_cost(calls: int = 20_000) -> float:
    """Microseconds for a contiguous tensor of ten values, Python included."""
    tiny = torch.ones(10)
    pointer, code = tiny.data_ptr(), native.DTYPES["float32"]
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        for _ in range(calls // 5):
            native.contiguous(pointer, code, 10)
        best = min(best, (time.thread_time() - start) / (calls // 5))
    return best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object for machines")
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--instructions", help="force avx512, avx2, sse2, neon or scalar")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not native.available():
        raise SystemExit(native.describe())
    native.use_instructions(options.instructions)
    rows = measure(options.megabytes, options.rounds)
    cost = call_cost()
    if options.json:
        print(json.dumps({"kernel": native.describe(), "rows": rows, "microseconds_per_small_call": cost}))
        return
    print(native.describe())
    print(f"{'what':34} {'GB/s':>6} {'ratio':>6} {'within':>14} {'aim':>6}")
    for row in rows:
        aim = "" if row["aim"] is None else f"{row['aim']:.2f} {'ok' if row['ratio'] >= row['aim'] else 'missed'}"
        low, high = row["within"]
        print(
            f"{row['what']:34} {row['gigabytes_per_second']:6.2f} {row['ratio']:6.2f} {low:6.2f} – {high:5.2f} {aim:>6}"
        )
    print(f"a tensor of ten values, Python included: {cost:.1f} µs")


if __name__ == "__main__":
    main()
