"""Ranks that share no disk with the server send it what they record: one run there, byte by byte as written here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tensight.control.address import Address
from tensight.control.messages import TOKEN_HEADER
from tensight.control.records import RECORDS, Granted, Offer, Records
from tensight.errors import ControlError
from tensight.runs import open_run
from tests.server.serving import TOKEN, Served, serving

LIMIT = 280
PROGRAM = """
import os, signal, sys, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
if "WORLD_SIZE" in os.environ:
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=rank, world_size=count)
    net = DDP(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(8):
    loss = net(torch.randn(16, 4)).square().mean()
    if step == 5 and "nan" in sys.argv and os.environ["RANK"] == "1":
        loss = loss * float("nan")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 6 and "die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
if "WORLD_SIZE" in os.environ:
    dist.destroy_process_group()
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that does not see the disks of the ranks, although it is on the same machine."""
    monkeypatch.setattr("tensight.server.receiving._sees", lambda offer: False)
    with serving(None, mode="serve", keep=tmp_path / "server") as made:
        yield made


def start(served: Served, folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    own = {"OMP_NUM_THREADS": "1", "TENSIGHT_TOKEN": TOKEN, **environment}
    return subprocess.Popen(
        [sys.executable, "-m", "tensight", "run", "--server", f"127.0.0.1:{served.port}", "train.py", *words],
        cwd=folder,
        env={**os.environ, **own},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.2)


@pytest.mark.timeout(600)
def test_two_ranks_with_disks_of_their_own_are_one_run_at_the_server(served: Served, tmp_path: Path) -> None:
    # the ranks meet by a file, so the port is no more than a name
    launch = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "MEET": str(tmp_path / "meet")}
    ranks = [start(served, tmp_path / f"node{rank}", "nan", **launch, RANK=str(rank)) for rank in (0, 1)]
    try:
        said = [rank.communicate(timeout=LIMIT)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert all("records are sent to" in one for one in said), said
    (kept,) = (tmp_path / "server").iterdir()
    for rank in (0, 1):
        (written,) = (tmp_path / f"node{rank}").glob(f"runs/*/rank-{rank}")
        assert files(kept / f"rank-{rank}") == files(written)
    run = open_run(kept)
    assert (sorted(run.readers), run.step_count) == ([0, 1], 8)
    assert run.findings[0].since_step == 5
    (row,) = served.http.get("/api/runs").json()
    assert (row["id"], row["ranks"]) == (kept.name, 2)


@pytest.mark.timeout(600)
def test_what_a_killed_training_has_recorded_still_comes(served: Served, tmp_path: Path) -> None:
    training = start(served, tmp_path / "node", "die")
    try:
        training.communicate(timeout=LIMIT)
    finally:
        training.kill()
        training.wait()
    assert training.returncode == -signal.SIGKILL
    (written,) = (tmp_path / "node").glob("runs/*/rank-0")
    until(lambda: [one for one in (tmp_path / "server").glob("*/rank-0") if files(one) == files(written)])
    (kept,) = (tmp_path / "server").iterdir()
    assert open_run(kept).step_count >= 1


def offer(rank: int = 0, ranks: int = 1, group: str = "", name: str = "lenet-1", run_dir: str = "/nowhere") -> Offer:
    return Offer(name, run_dir, "0" * 32, rank, ranks, group)


def at(served: Served, key: str = "", token: str = TOKEN) -> Records:
    return Records(Address("127.0.0.1", served.port, token), key)


def granted(served: Served, asked: Offer) -> Granted:
    return at(served).offer(asked)


def test_ranks_of_a_launch_meet_in_one_folder_and_the_next_launch_has_another(served: Served) -> None:
    first = [granted(served, offer(rank, 2, "head:29500")).folder for rank in (1, 0)]
    again = [granted(served, offer(rank, 2, "head:29500")).folder for rank in (0, 1)]
    alone = [granted(served, offer()).folder for _ in range(2)]
    assert [len(set(pair)) for pair in (first, again, alone)] == [1, 1, 2]
    assert len({*first, *again, *alone}) == 4


def test_a_file_that_grows_is_sent_from_where_it_was(served: Served, tmp_path: Path) -> None:
    grant = granted(served, offer())
    records, log = at(served, grant.key), tmp_path / "000000.log"
    kept = Path(grant.folder) / "rank-0" / "000000.log"
    for text in (b"one", b"one two", b"one two three"):
        log.write_bytes(text)
        records.put_file(str(log), "/rank-0/000000.log")
        assert kept.read_bytes() == text
    kept.write_bytes(b"other")  # it has another length there: sent again as a whole
    log.write_bytes(b"one two three four")
    records.put_file(str(log), "/rank-0/000000.log")
    assert kept.read_bytes() == b"one two three four"
    records.rm_file("/rank-0/000000.log")
    assert not kept.exists()


def test_a_file_of_several_pieces_arrives_whole(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensight.control.records.PIECE", 7)
    grant = granted(served, offer())
    (tmp_path / "x").write_bytes(bytes(range(40)))
    at(served, grant.key).put_file(str(tmp_path / "x"), "/rank-0/tensors/step-3.safetensors")
    assert (Path(grant.folder) / "rank-0/tensors/step-3.safetensors").read_bytes() == bytes(range(40))
    assert len(files(Path(grant.folder))) == 1


@pytest.mark.parametrize(
    "name", ["../x", "rank-0/../../x", "rank-1/x", "rank-0", "rank-0/.hidden", "rank-0/a/b/c/d", "rank-0//x", "/etc/x"]
)
def test_no_name_leads_out_of_the_rank(served: Served, tmp_path: Path, name: str) -> None:
    grant = granted(served, offer())
    before = files(tmp_path)
    for method in ("PUT", "DELETE"):
        path = f"{RECORDS}/{grant.key}/{name.replace('/', '%2F').replace('.', '%2E')}"
        answer = served.stranger.request(method, path, content=b"x", headers={TOKEN_HEADER: TOKEN})
        assert answer.status_code in (400, 404), answer.text
    assert files(tmp_path) == before


def test_only_who_has_the_token_and_a_key_may_send(served: Served, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    with pytest.raises(ControlError, match="The token is missing"):
        at(served, token="wrong").offer(offer())
    with pytest.raises(ControlError, match="granted no such key"):
        at(served, "0" * 32).put_file(str(tmp_path / "x"), "/rank-0/x")
    assert served.http.post(RECORDS, json={}).status_code == 401  # a page's cookie is none of a training


def test_a_folder_that_the_server_sees_is_not_sent(tmp_path: Path) -> None:
    with serving(None, mode="serve", keep=tmp_path / "server") as made:
        (tmp_path / ("." + "0" * 32)).touch()
        assert granted(made, offer(run_dir=str(tmp_path))) == Granted()
        assert granted(made, offer(run_dir=str(tmp_path / "elsewhere"))).key


def test_a_server_of_one_run_takes_no_records_of_others(tmp_path: Path) -> None:
    with serving(tmp_path, mode="view") as made, pytest.raises(ControlError, match="takes no records"):
        granted(made, offer())
