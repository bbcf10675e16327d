"""An accelerator computes in float32 only."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence


class MixedPrecision(AdviceRule):
    fault = "no_mixed_precision"
    symptom = "A device with fast half-precision units computes in float32."
    measure = "Device, dtypes of parameters and of the operators that were met."
    threshold = "An accelerator, and no operator in float16 or bfloat16."
    advice = "torch.autocast with bfloat16; on MindSpore amp.auto_mixed_precision or amp_level='O2'."

    def look(self, reading: Reading) -> Advice | None:
        if not reading.accelerator or reading.number("half_parameters"):
            return None
        if any("16" in one.dtypes for one in reading.profile.operators):
            return None
        return Advice(
            self.fault,
            "everything is computed in float32",
            f"{reading.profile.device} has units for half precision that are several times as fast",
            0.3,
            evidence=(Evidence("device", reading.profile.device),),
            fix=(
                "with torch.autocast(device, dtype=torch.bfloat16): …",
                "on MindSpore amp_level='O2' or auto_mixed_precision",
            ),
            tries=("bfloat16",),
            confidence=0.6,
        )
