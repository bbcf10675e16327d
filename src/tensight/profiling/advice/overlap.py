"""Ranks wait for gradients."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds, percent
from tensight.records import Evidence, Source

SHARE = 0.1
OVERLAP = 0.5


class PoorOverlap(AdviceRule):
    fault = "poor_overlap"
    symptom = "AllReduce of gradients is not hidden behind the backward pass."
    measure = "DistributedDataParallel's own times: communication, and how much of it runs while backward computes."
    threshold = "Less than half hidden, and at least 10 % of a step in the open."
    advice = "bucket_cap_mb that fits, gradient_as_bucket_view, static_graph; on MindSpore all_reduce_fusion_config."

    def look(self, reading: Reading) -> Advice | None:
        whole = reading.number("ddp.backward_comm")
        hidden = reading.number("ddp.backward_compute_comm_overlap")
        if not whole or not reading.seconds:
            return None
        # the counts are of a sampled step; more than a step cannot be in the open
        open_share = min(0.9, (whole - hidden) / max(reading.seconds, whole))
        if hidden / whole >= OVERLAP or open_share < SHARE:
            return None
        file, line = reading.fact("ddp.file"), reading.number("ddp.line")
        source = Source(str(file), int(line), str(reading.fact("ddp.code") or "")) if file and line else None
        cap = reading.number("ddp.bucket_cap_bytes")
        small = cap and cap < 4e6
        return Advice(
            self.fault,
            f"gradients are sent in the open: {percent(hidden / whole)} of {milliseconds(whole)} is hidden",
            "all ranks wait for each other after backward instead of sending while it runs"
            + (f"; buckets hold {cap / 1e6:.2g} MB each, so there are many small messages" if small else ""),
            open_share,
            source,
            evidence=(
                Evidence("communication", round(whole, 6)),
                Evidence("hidden behind backward", round(hidden, 6)),
                Evidence("bucket size", int(cap)),
                Evidence("buckets", str(reading.fact("ddp.bucket_sizes") or "")),
            ),
            fix=(
                "bucket_cap_mb=25 (the default) or more when messages are small, less when there is only one bucket",
                "gradient_as_bucket_view=True; static_graph=True when the graph never changes",
                "on MindSpore split AllReduce by all_reduce_fusion_config, e.g. [85, 160] for 160 weights",
            ),
            tries=("bucket=25",),
            confidence=0.85,
        )
