"""One file per noun; `ALL` is the whole table."""

from tensight.server.routes import (
    compare,
    control,
    graph,
    hits,
    live,
    nodes,
    prints,
    ranks,
    records,
    runs,
    stacks,
    steps,
    tensor,
    time,
    tune,
    watchpoints,
)

ALL = [
    *runs.ROUTES,
    *steps.ROUTES,
    *nodes.ROUTES,
    *hits.ROUTES,
    *watchpoints.ROUTES,
    *control.ROUTES,
    *compare.ROUTES,
    *live.ROUTES,
    *ranks.ROUTES,
    *records.ROUTES,
    *prints.ROUTES,
    *graph.ROUTES,
    *stacks.ROUTES,
    *tensor.ROUTES,
    *time.ROUTES,
    *tune.ROUTES,
]

__all__ = ["ALL"]
