"""Work over many files at once: in this process, in several on this machine, or on a Ray cluster.

Whoever does the work, results come in the order of the tasks and are the same.
"""

from __future__ import annotations

from tensight.errors import UsageError
from tensight.workers.base import Here, Workers, batches


def workers_on(place: str | None = None, jobs: int | None = None) -> Workers:
    """Those who do the work: 'local', 'ray' or 'ray://host:port'; without a place and jobs, this process alone.

    >>> with workers_on() as workers:
    ...     list(workers.map(abs, [-3, 2, -1]))
    [3, 2, 1]
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs is {jobs}: give how many processes may work at once, 1 or more")
    if place is None and jobs in (None, 1):
        return Here()
    if place in (None, "local"):
        from tensight.workers.processes import Processes

        return Processes(jobs)
    if place == "ray" or place.startswith("ray://"):
        from tensight.workers.on_ray import OnRay

        return OnRay(place, jobs)
    raise UsageError(f"{place[:80]!r} is no place to work: give local, ray or ray://host:port")


__all__ = ["Here", "Workers", "batches", "workers_on"]
