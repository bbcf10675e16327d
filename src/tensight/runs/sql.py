"""Questions in SQL to what was recorded, answered by DuckDB over Parquet files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensight.errors import MissingExtra, UsageError
from tensight.runs.parquet import TABLES, export
from tensight.runs.words import number, paragraph, table

if TYPE_CHECKING:
    import pandas

    from tensight.runs.run import Run

_SHOWN = 50


class Answer(Sequence[tuple[Any, ...]]):
    """The rows of an answer; `columns` are their names.

    >>> answer = Answer(("node", "nans"), [("head", 3)])
    >>> answer[0], answer.dicts()
    (('head', 3), [{'node': 'head', 'nans': 3}])
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        self.columns = tuple(columns)
        self._rows = list(rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def dicts(self) -> list[dict[str, Any]]:
        """Every row as a dictionary."""
        return [dict(zip(self.columns, row)) for row in self._rows]

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("pandas", "notebook", "an answer as a DataFrame") from error
        return pandas.DataFrame(self._rows, columns=list(self.columns))

    def __repr__(self) -> str:
        return f"<Answer: {len(self)} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        rows = [[number(cell) if isinstance(cell, float) else cell for cell in row] for row in self._rows[:_SHOWN]]
        more = f"{len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return table(self.columns, rows) + (paragraph(more) if more else "")


def query(run: Run, sql: str) -> Answer:
    """One SELECT over the tables `stats`, `steps` and `hits` of a run."""
    words = sql.lower()
    with tempfile.TemporaryDirectory(prefix="tensight-sql-", ignore_cleanup_errors=True) as folder:
        # a table that the question does not name is not asked for
        named = [name for name in TABLES if name in words]
        files = {name: Path(folder) / f"{name}.parquet" for name in named}
        for name, path in files.items():
            export(run, path, name)
        return ask(files, sql)


def ask(files: Mapping[str, Path], sql: str) -> Answer:
    """One SELECT over Parquet files by the names of their tables.

    It reads these files and nothing else: neither other files nor the network, nor can it write or change a setting.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtra("duckdb", "sql", "a question in SQL") from error
    with tempfile.TemporaryDirectory(prefix="tensight-sql-", ignore_cleanup_errors=True) as room:
        connection = duckdb.connect(":memory:", config={"temp_directory": room})
        try:
            for name, path in files.items():
                place = str(path.absolute()).replace("'", "''")
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{place}')")
            places = ", ".join("'" + str(path.absolute()).replace("'", "''") + "'" for path in files.values())
            for setting in (
                f"allowed_paths = [{places}]",
                "autoinstall_known_extensions = false",
                "autoload_known_extensions = false",
                "python_enable_replacements = false",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                connection.execute(f"SET {setting}")
            statements = connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("a question in SQL is one SELECT: nothing else is allowed here")
            found = connection.execute(statements[0])
            return Answer([column[0] for column in found.description or ()], found.fetchall())
        except duckdb.Error as error:
            raise UsageError(_said(error)) from error
        finally:
            connection.close()


def _said(error: Exception) -> str:
    first = str(error).strip().splitlines() or [type(error).__name__]
    tables = "; ".join(f"{name}({', '.join(columns)})" for name, columns in TABLES.items())
    hint = f" (there are {tables})" if "does not exist" in first[0] or "not found" in first[0] else ""
    return f"the question cannot be answered: {first[0][:300]}{hint}"
