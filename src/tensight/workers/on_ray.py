"""Workers of a Ray cluster: one that runs already, or a small one on this machine for as long as the work takes."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import warnings
from collections.abc import Iterable
from typing import Any

import tensight
from tensight.errors import MissingExtra, TensightError, UsageError
from tensight.workers.base import Job, Outcome, Workers, done
from tensight.workers.processes import processors

_ATTEMPTS = 3
_REACH = 10.0  # seconds, for a head that is there
# a head starts a process for each client, and gives up after 30 seconds, which a busy one may need
_BUSY = "Proxy failed to Connect to backend"
_QUIET = {"logging_level": logging.ERROR, "log_to_driver": False}


class OnRay(Workers):
    """`place` is 'ray' or 'ray://host:port'.

    'ray' means the cluster that `RAY_ADDRESS` names. Where it names none, one is started on the loopback address,
    without a dashboard and behind a token that nobody else has, and ends with the work. A cluster that asks for a token
    is given that of Ray's own settings (`RAY_AUTH_MODE`, `RAY_AUTH_TOKEN`).
    """

    def __init__(self, place: str, jobs: int | None = None) -> None:
        self.place = place
        address = place if place != "ray" else os.environ.get("RAY_ADDRESS", "")
        self._own = address in ("", "local")
        self._set: dict[str, str] = {}
        if self._own:
            # nothing of ours is told to anybody, and no token is left in the user's home
            self._set |= {"RAY_USAGE_STATS_ENABLED": "0"}
            if "RAY_AUTH_MODE" not in os.environ:
                self._set |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self._set = {name: value for name, value in self._set.items() if name not in os.environ}
        os.environ.update(self._set)  # before Ray is imported, which reads them then
        self._ray: Any = None
        try:
            self._ray = _imported(place)
            self._connect(address, jobs)
            self.count = jobs or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            self._done = self._ray.remote(done)
            self._same_version()
        except BaseException:
            self.close()
            raise

    def _connect(self, address: str, jobs: int | None) -> None:
        if self._ray.is_initialized():
            self._ray = None  # not ours to shut down
            raise UsageError("this program uses Ray already: leave its cluster with ray.shutdown() first")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what fails is said in one sentence
                if self._own:
                    self._start_cluster(jobs or processors())
                else:
                    self._join(address)
        except Exception as error:  # Ray raises many kinds, bare ones too
            said = " ".join(str(error).split())[:300] or type(error).__name__
            if _BUSY in said:
                raise UsageError(
                    f"the Ray cluster at {address} is too busy to serve a client in time: try again, or start its head "
                    "with RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S=300"
                ) from error
            where = "this machine" if self._own else address
            raise UsageError(
                f"no Ray cluster could be reached at {where}: {said} (a cluster that asks for a token needs "
                "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN)"
            ) from error

    def _join(self, address: str) -> None:
        _reach(address)
        for left in range(_ATTEMPTS - 1, -1, -1):
            try:
                self._ray.init(address, **_QUIET)
                return
            except Exception as error:
                self._ray.shutdown()
                if not left or _BUSY not in str(error):
                    raise

    def _start_cluster(self, cpus: int) -> None:
        for left in range(_ATTEMPTS - 1, -1, -1):
            try:
                self._ray.init("local", num_cpus=cpus, include_dashboard=False, _node_ip_address="127.0.0.1", **_QUIET)
                return
            except Exception:  # it gives up after 30 seconds, which a busy machine may need
                self._ray.shutdown()
                if not left:
                    raise

    def _same_version(self) -> None:
        """Other versions could judge otherwise; and the first task says whether there are workers at all."""
        found = self._wait(self._start(Job(_version, None, (), {}))).value
        if found != tensight.__version__:
            raise UsageError(
                f"the workers of {self.place} have Tensight {found}, and this is {tensight.__version__}: "
                "install the same everywhere"
            )

    def _start(self, job: Job) -> Any:
        return self._done.remote(job)

    def _wait(self, started: Any) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(started)
            return outcome
        except self._ray.exceptions.RayError as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            if any("No module named 'tensight" in line for line in said):
                raise UsageError(f"the workers of {self.place} have no Tensight: install it on them") from error
            raise TensightError(f"a worker of {self.place} was lost: {said[-1][:300]}") from error

    def _drop(self, started: Iterable[Any]) -> None:
        for one in started:
            self._ray.cancel(one)

    def close(self) -> None:
        if self._ray is not None:
            self._ray.shutdown()
        for name in self._set:
            os.environ.pop(name, None)
        self._set = {}


def _imported(place: str) -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "ray", f"work on {place}") from error
    return ray


def _reach(address: str) -> None:
    """Say at once that nobody is there; Ray's client asks for half a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address.startswith("ray://") and host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _REACH).close()


def _version(_: None) -> str:
    return tensight.__version__
