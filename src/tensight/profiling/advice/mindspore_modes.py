"""MindSpore's own ways to be faster: static graph, sink mode, fused kernels, fixed shapes."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence, Source


def _place(reading: Reading, name: str) -> Source | None:
    file, line = reading.fact(f"{name}.file"), reading.number(f"{name}.line")
    return Source(str(file), int(line), str(reading.fact(f"{name}.code") or "")) if file and line else None


class StaticGraph(AdviceRule):
    fault = "eager_mode"
    symptom = "The network runs operator by operator in PyNative mode."
    measure = "The mode, and compiled functions that were met."
    threshold = "PyNative mode without any compiled function, and the passes at least half of a step."
    advice = "set_context(mode=GRAPH_MODE), or @mindspore.jit on the training step."
    frameworks = ("mindspore",)

    def look(self, reading: Reading) -> Advice | None:
        passes = reading.share("forward") + reading.share("backward") + reading.share("update")
        if reading.fact("mode") != "pynative" or reading.number("compiled_calls") or passes < 0.5:
            return None
        return Advice(
            self.fault,
            "the network runs in PyNative mode",
            f"each operator is launched from Python; forward, backward and update are {percent(passes)} of a step",
            0.4 * passes,
            _place(reading, "mode"),
            evidence=(Evidence("mode", "PyNative"),),
            fix=("mindspore.set_context(mode=mindspore.GRAPH_MODE), or @mindspore.jit on the function of a step",),
            confidence=0.7,
        )


class SinkMode(AdviceRule):
    fault = "sink_mode_off"
    symptom = "Each step goes back to Python on a device that can run many at once."
    measure = "dataset_sink_mode of Model.train, and the device."
    threshold = "Off, on Ascend or GPU."
    advice = "dataset_sink_mode=True, with sink_size where results are wanted more often than once an epoch."
    frameworks = ("mindspore",)

    def look(self, reading: Reading) -> Advice | None:
        if reading.fact("sink") is not False or not reading.accelerator:
            return None
        return Advice(
            self.fault,
            "data is not sunk to the device",
            "the device waits for Python between steps",
            0.2,
            _place(reading, "train"),
            evidence=(Evidence("dataset_sink_mode", False),),
            fix=("model.train(…, dataset_sink_mode=True)",),
            confidence=0.7,
        )


class KernelFusion(AdviceRule):
    fault = "kernel_fusion_off"
    symptom = "Many small operators in graph mode on a device that can fuse them."
    measure = "enable_graph_kernel, mode and device."
    threshold = "Off, in graph mode on Ascend or GPU."
    advice = "set_context(enable_graph_kernel=True)."
    frameworks = ("mindspore",)

    def look(self, reading: Reading) -> Advice | None:
        if reading.fact("mode") != "graph" or not reading.accelerator or reading.fact("graph_kernel") is not False:
            return None
        return Advice(
            self.fault,
            "graph kernel fusion is off",
            "small operators are launched one by one",
            0.1,
            evidence=(Evidence("enable_graph_kernel", False),),
            fix=("mindspore.set_context(enable_graph_kernel=True)",),
            confidence=0.6,
        )


class DynamicShape(AdviceRule):
    fault = "recompilation_storm"
    symptom = "A graph is built again because shapes change."
    measure = "Graphs built after the warm-up."
    threshold = "Two."
    advice = "Pad to one shape, drop_remainder=True, or set_inputs with dynamic dimensions."
    frameworks = ("mindspore",)
    explains = ("eager_mode",)

    def look(self, reading: Reading) -> Advice | None:
        late = reading.number("graphs_late")
        if late < 2:
            return None
        whole = sum(time.seconds for time in reading.clocked)
        seconds = reading.profile.compiling.seconds
        return Advice(
            self.fault,
            f"{late:.0f} graphs were built after the warm-up",
            "each new shape of the inputs builds the graph again",
            min(0.95, max(0.1, seconds / whole if whole else 0.1)),
            _place(reading, "mode"),
            evidence=(Evidence("graphs built late", int(late)), Evidence("seconds of building", round(seconds, 3))),
            fix=("pad to one shape, or batch(…, drop_remainder=True)", "Cell.set_inputs with dynamic dimensions"),
            confidence=0.9,
        )
