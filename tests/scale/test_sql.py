"""Statistics out as Parquet, and questions in SQL that can read nothing else."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from tensight.cli import group
from tensight.errors import MissingExtra, UsageError
from tensight.runs import Run, open_run, parquet
from tests.runs.sample import STEPS, TENSORS, record_run
from tests.scale import recordings


@pytest.fixture
def run(tmp_path: Path) -> Run:
    record_run(tmp_path / "run", 0, 2)
    record_run(tmp_path / "run", 1, 2)
    return open_run(tmp_path / "run")


def test_every_observation_is_a_row_in_order(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS", 10)  # several groups
    assert run.to_parquet(tmp_path / "stats.parquet") == STEPS * len(TENSORS) * 2
    rows = pyarrow.parquet.read_table(tmp_path / "stats.parquet").to_pylist()
    assert [(row["step"], row["rank"], row["order"]) for row in rows] == sorted(
        (step, rank, order) for step in range(STEPS) for rank in range(2) for order in range(len(TENSORS))
    )
    known = run.nodes("head").gradients(step=6).stats()[0]
    (same,) = [row for row in rows if (row["step"], row["rank"], row["kind"]) == (6, 0, "gradient")]
    assert (same["nan"], same["min"], same["mean"]) == (known.stats.nan, known.stats.min, known.stats.mean)
    assert (same["node"], same["slot"], same["dtype"], same["l2"]) == ("head", "weight", "bfloat16", None)


def test_steps_and_hits_are_tables_too(run: Run, tmp_path: Path) -> None:
    assert run.to_parquet(tmp_path / "steps.parquet", "steps") == STEPS * 2
    losses = pyarrow.parquet.read_table(tmp_path / "steps.parquet").column("loss").to_pylist()
    assert [math.isnan(loss) for loss in losses] == [step >= 6 for step in range(STEPS) for _ in range(2)]
    assert run.to_parquet(tmp_path / "hits.parquet", "hits") == len(run.hits)
    with pytest.raises(UsageError, match="a run has stats, steps, hits"):
        run.to_parquet(tmp_path / "x.parquet", "secrets")


def test_a_question_is_answered_over_all_ranks(run: Run) -> None:
    answer = run.query("select rank, sum(nan) as nans from stats where kind = 'gradient' group by rank order by rank")
    assert (answer.columns, list(answer)) == (("rank", "nans"), [(0, 1), (1, 1)])
    assert run.query("select count(*) from hits")[0] == (len(run.hits),)
    assert list(run.query("SELECT max(step) FROM Steps").to_pandas().iloc[:, 0]) == [STEPS - 1]
    assert "<table" in answer._repr_html_()


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('{secret}')",
        "select * from '{secret}'",
        "select * from read_text('{secret}'), stats",
        "select * from glob('{folder}/*')",
        "select * from read_parquet('{folder}/*.parquet')",
        "copy stats to '{folder}/out.csv'",
        "attach '{folder}/other.db'",
        "create table x as select 1",
        "set enable_external_access = true",
        "install httpfs",
        "load httpfs",
        "pragma database_list",
        "select 1; select 2",
        "select * from 'https://127.0.0.1:1/x.parquet'",
        "select getenv('HOME')",
        "",
    ],
)
def test_a_question_reads_and_writes_nothing_else(run: Run, tmp_path: Path, sql: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("word\nhush\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError) as refused:
        run.query(sql.format(secret=secret, folder=tmp_path))
    assert "\n" not in str(refused.value)
    assert "hush" not in str(refused.value)
    assert sorted(tmp_path.iterdir()) == before


def test_python_variables_are_no_tables(run: Run) -> None:
    import pandas

    frame = pandas.DataFrame({"x": [1]})
    with pytest.raises(UsageError, match="frame"):
        run.query("select * from frame")
    assert len(frame) == 1


def test_a_wrong_column_is_one_sentence_with_the_right_ones(run: Run) -> None:
    with pytest.raises(UsageError, match=r"colour.*stats\(step, rank, network, node"):
        run.query("select colour from stats")


def test_names_of_a_model_are_values_and_no_sql(tmp_path: Path) -> None:
    folder = recordings.run(tmp_path / "it's; drop table", 1)
    assert open_run(folder).query("select count(distinct node) from stats")[0] == (recordings.LAYERS,)


def test_the_commands_write_and_ask(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "out" / "stats.parquet"
    told = CliRunner().invoke(group, ["export", str(run.path), "--to", str(target)])
    assert told.output == f"140 rows of stats written to {target}\n"
    for place in (str(run.path), str(target)):
        told = CliRunner().invoke(group, ["query", place, "select node, nan from stats where nan > 0", "--json"])
        assert json.loads(told.output) == {"columns": ["node", "nan"], "rows": [["head", 1], ["head", 1]]}
    told = CliRunner().invoke(group, ["query", str(run.path), "select step from steps", "--most", "3"])
    assert told.output.splitlines()[-1] == "20 rows, 3 shown"


def test_what_is_missing_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"needs duckdb: pip install 'tensight\[sql\]'"):
        run.query("select 1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"needs pyarrow: pip install 'tensight\[sql\]'"):
        run.to_parquet(tmp_path / "x.parquet")
