"""`SummaryCollector`: scalars, histograms, graph, hyper-parameters, facts and samples of the data, loss landscape."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensight.errors import UsageError
from tensight.kit.backend import Array, array, backend_of
from tensight.kit.callbacks.callback import Callback, Params, RunContext
from tensight.kit.callbacks.values import loss_of
from tensight.kit.loss_landscape import landscape
from tensight.kit.summaries import SummaryWriter, TensorBoardWriter
from tensight.session.settings import rank
from tensight.watchpoints.selectors import Selector

KNOWN = {
    "collect_metric",
    "collect_graph",
    "collect_input_data",
    "collect_train_lineage",
    "histogram_regular",
    "collect_landscape",
}
_HISTOGRAMS = 5  # parameters that get a histogram when none are named


class SummaryCollector(Callback):
    """Writes what happens to `summary_dir`, every `collect_freq` steps; with `tensorboard` for TensorBoard too.

    `collect_specified_data` switches parts off (`collect_metric`, `collect_graph`, `collect_input_data`,
    `collect_train_lineage`), names the parameters that get histograms (`histogram_regular`, a selector such as
    'encoder.*'; the first five otherwise) and asks for a loss landscape at the end (`collect_landscape`: True or
    `{"size": 11, "span": 1.0}`). `custom_lineage_data` are words of the user's own for the table that
    `tensight.kit.compare_summaries` makes. Ranks after the first write to a folder of their own in it.

    >>> import tempfile
    >>> from tensight.kit import Driver, read_summary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     driver = Driver(SummaryCollector(folder, custom_lineage_data={"note": "first try"}))
    ...     driver.begin(); driver.epoch_begin(); driver.step_begin(); driver.step_end(0.5); driver.epoch_end()
    ...     driver.end(); driver.release()
    ...     content = read_summary(folder)
    >>> content["scalars"], content["custom"]
    ({'loss': [(1, 0.5)]}, {'note': 'first try'})
    """

    def __init__(
        self,
        summary_dir: str | Path,
        collect_freq: int = 10,
        collect_specified_data: Mapping[str, Any] | None = None,
        custom_lineage_data: Mapping[str, Any] | None = None,
        tensorboard: bool = False,
    ) -> None:
        if isinstance(collect_freq, bool) or not isinstance(collect_freq, int) or collect_freq < 1:
            raise UsageError(f"SummaryCollector: collect_freq is {collect_freq!r}; give a whole number from 1 on")
        asked = dict(collect_specified_data or {})
        unknown = sorted(set(asked) - KNOWN)
        if unknown:
            raise UsageError(
                f"SummaryCollector: there is no {unknown[0]!r} to collect; there are {', '.join(sorted(KNOWN))}"
            )
        self._folder = Path(summary_dir) / f"rank_{rank()}" if rank() else Path(summary_dir)
        self._every = collect_freq
        self._asked = asked
        self._custom = dict(custom_lineage_data or {})
        self._tensorboard = tensorboard
        self._writers: list[SummaryWriter | TensorBoardWriter] = []
        self._first = True

    def on_train_begin(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        self._writers = [SummaryWriter(self._folder)]
        if self._tensorboard:
            self._writers.append(TensorBoardWriter(self._folder))
        self._first = True
        if self._wants("collect_graph") and params.get("network") is not None:
            rows = [[path, kind] for path, kind, _ in backend_of(params.network).modules(params.network)]
            self._fact("graph", rows)
        if self._wants("collect_train_lineage"):
            self._fact("hyper", _hyper(params))
        if self._custom:
            self._fact("custom", self._custom)

    def on_train_step_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        if self._first:
            self._first = False
            self._data(params)
        elif (params.cur_step_num - 1) % self._every:
            return
        if self._wants("collect_metric"):
            scalars = {"loss": loss_of(params), "learning_rate": _rate(params), "loss_scale": params.get("loss_scale")}
            known = {name: value for name, value in scalars.items() if value is not None}
            for writer in self._writers:
                writer.scalars(params.cur_step_num, known)
        self._histograms(params)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        found = {
            f"eval/{name}": float(value) for name, value in (params.get("metrics") or {}).items() if _is_number(value)
        }
        if found:
            for writer in self._writers:
                writer.scalars(params.cur_step_num, found)

    def on_train_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        asked = self._asked.get("collect_landscape")
        if asked and params.get("network") is not None and params.get("train_dataset_element") is not None:
            options = dict(asked) if isinstance(asked, Mapping) else {}
            found = landscape(params.network, params.loss_fn, params.train_dataset_element, **options)
            self._fact("landscape", {"axis": found.axis, "losses": found.losses})

    def release(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers = []

    def _wants(self, name: str) -> bool:
        return bool(self._asked.get(name, True))

    def _fact(self, name: str, value: Any) -> None:
        for writer in self._writers:
            writer.fact(name, value)

    def _data(self, params: Params) -> None:
        batch = params.get("train_dataset_element")
        items = (
            list(batch.values())
            if isinstance(batch, dict)
            else list(batch)
            if isinstance(batch, (tuple, list))
            else [batch]
        )
        arrays = [array(item) for item in items if hasattr(item, "shape")]
        if not arrays:
            return
        if self._wants("collect_train_lineage"):
            size = params.get("batch_num")
            self._fact(
                "data",
                {
                    "batch_size": len(arrays[0]) if arrays[0].ndim else 1,
                    "batches": size,
                    "shapes": [list(one.shape) for one in arrays],
                    "dtypes": [one.dtype.name for one in arrays],
                },
            )
        if self._wants("collect_input_data"):
            self._fact("samples", [one.reshape(-1)[:16].tolist() for one in arrays])

    def _histograms(self, params: Params) -> None:
        asked = self._asked.get("histogram_regular")
        if asked is False or params.get("network") is None:
            return
        backend = backend_of(params.network)
        named = dict(backend.parameters(params.network))
        if isinstance(asked, str):
            from tensight.records import TensorInfo

            selector = Selector.parse(asked)
            chosen = [
                name
                for name in named
                if selector.selects(TensorInfo(0, "weight", name.rpartition(".")[0], name.rpartition(".")[2]))
            ]
        else:
            chosen = list(named)[:_HISTOGRAMS]
        values: dict[str, Array] = {name: backend.array(named[name]) for name in chosen}
        for writer in self._writers:
            writer.histograms(params.cur_step_num, values)


def _hyper(params: Params) -> dict[str, Any]:
    loss, optimizer = params.get("loss_fn"), params.get("optimizer")
    return {
        "network": type(params.get("network")).__name__,
        "loss_fn": getattr(loss, "__name__", type(loss).__name__) if loss is not None else "",
        "optimizer": type(optimizer).__name__ if optimizer is not None else "",
        "learning_rate": _rate(params),
        "epochs": params.get("epoch_num"),
        "loss_scale": params.get("loss_scale"),
    }


def _rate(params: Params) -> float | None:
    optimizer = params.get("optimizer")
    return None if optimizer is None else backend_of(optimizer).rate(optimizer)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (hasattr(value, "ndim") and value.ndim == 0)
