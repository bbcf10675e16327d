"""One file per noun; `ALL` is the whole table."""

from tensight.server.routes import control, hits, live, nodes, runs, steps, watchpoints

ALL = [*runs.ROUTES, *steps.ROUTES, *nodes.ROUTES, *hits.ROUTES, *watchpoints.ROUTES, *control.ROUTES, *live.ROUTES]

__all__ = ["ALL"]
