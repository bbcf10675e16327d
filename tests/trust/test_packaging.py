"""The package as strangers get it: what is in the wheel, and that it needs no newer Python than it says."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import httpx
import pytest

from tests.trust.programs import LONG, until

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_{}(sys.argv[1]))"

# what came to the standard library after 3.10, of what one might reach for
NEWER = {
    "asyncio": {"timeout", "timeout_at", "TaskGroup", "Runner", "Barrier"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "ReprEnum", "verify", "member", "nonmember"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "math": {"cbrt", "exp2", "sumprod", "fma"},
    "operator": {"call"},
    "typing": {"Self", "LiteralString", "Never", "assert_never", "reveal_type", "Unpack", "TypeVarTuple", "override"},
    "warnings": {"deprecated"},
}
NEWER_MODULES = {"tomllib", "wsgiref.types", "compression", "annotationlib"}


def copied(target: Path) -> Path:
    """The tree as a fresh clone has it."""
    skip = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT / "src", target / "src", ignore=skip)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target / name)
    return target


def built(tree: Path, kind: str, **environ: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(kind), str(tree / "dist")],
        cwd=tree,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 0, done.stderr
    return tree / "dist" / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built where there is no compiler: its kernel is then built on first need."""
    nothing = tmp_path_factory.mktemp("nothing")
    return built(copied(tmp_path_factory.mktemp("tree")), "wheel", PATH=str(nothing), CXX="")


def test_everything_a_user_needs_is_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {path.relative_to(ROOT / "src").as_posix() for path in SOURCES} <= names
    needed = ["py.typed", "session/site/tensight.pth", "session/site/sitecustomize.py", "stats/_kernel/kernel.cpp"]
    needed += [f"server/static/{name}" for name in ("index.html", "favicon.svg")]
    for name in needed:
        assert f"tensight/{name}" in names
    page = [path for path in (ROOT / "src/tensight/server/static").rglob("*") if path.is_file()]
    assert {path.relative_to(ROOT / "src").as_posix() for path in page} <= names
    top = {name.partition("/")[0] for name in names}
    assert top == {"tensight", "tensight.pth", f"tensight-{version(wheel)}.dist-info"}
    assert not [name for name in names if "__pycache__" in name or "node_modules" in name]


def version(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def test_the_wheel_says_what_it_needs_and_how_it_is_called(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folder = f"tensight-{version(wheel)}.dist-info"
        facts = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        entries = archive.read(f"{folder}/entry_points.txt").decode()
    assert facts["Requires-Python"] == ">=3.10"
    assert "tensight = tensight.cli:main" in entries
    plain = [need for need in facts.get_all("Requires-Dist", []) if "extra ==" not in need]
    assert not [need for need in plain if need.startswith(("torch", "mindspore", "pandas", "optuna"))]
    assert "-py3-none-" in wheel.name


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_the_environment_is_enough_for_a_plain_script_once_the_package_is_installed(
    wheel: Path, tmp_path: Path, kind: str
) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "env")}))
    if kind == "editable":
        wheel = built(copied(tmp_path / "tree"), "editable", CXX="")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        record = archive.read(f"tensight-{version(wheel)}.dist-info/RECORD").decode()
    assert any(line.startswith("tensight.pth,sha256=") for line in record.splitlines())  # so it goes with the package
    (site / "a_rest.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # what else is needed lies there
    if kind == "wheel":  # in an environment that sees the system's packages the hook of both is read
        other = tmp_path / "system"
        other.mkdir()
        shutil.copy(site / "tensight.pth", other / "tensight.pth")
        (site / "zz_other.pth").write_text(f"import site; site.addsitedir({str(other)!r})\n")
    python = str(tmp_path / "env" / "bin" / Path(sys.executable).name)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "TENSIGHT"))}

    def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *words], cwd=tmp_path, env={**bare, **environ}, capture_output=True, text=True, timeout=LONG
        )

    (tmp_path / "train.py").write_text(FAULTY.replace("step != 6", "step != 60"))
    assert run("train.py").stderr == ""
    assert not (tmp_path / "runs").exists()
    ran = run("train.py", TENSIGHT_SERVER="127.0.0.1:9", CXX="/bin/false")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("tensight: first step") == 1, ran.stderr
    assert [one.name for one in (tmp_path / "runs").iterdir()] == ["train-1"]
    removed = run("-m", "tensight", "serve", "--remove-hook").stdout
    assert str(site / "tensight.pth") in removed
    assert "it came with the package" in removed
    (site / "zz_other.pth").unlink(missing_ok=True)
    assert run("train.py", TENSIGHT_SERVER="127.0.0.1:9").stderr == ""


FAULTY = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x = torch.rand(8, 4)
    loss = (torch.log(x * (step != 6)) * model(x)).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def test_from_the_source_package_without_a_compiler_a_fault_is_found_and_doctor_says_what_is_missing(
    tmp_path: Path,
) -> None:
    source = built(copied(tmp_path / "tree"), "sdist")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [tree] = (tmp_path / "unpacked").iterdir()
    made = built(tree, "wheel", CXX="/bin/false")
    with zipfile.ZipFile(made) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
        archive.extractall(tmp_path / "site")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "CXX": "/bin/false", "OMP_NUM_THREADS": "1"}
    environ |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TENSIGHT_STATE": str(tmp_path / "state")}

    def tensight(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tensight", *words],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=LONG,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    [kernel] = [one for one in json.loads(tensight("doctor", "--json"))["checks"] if one["what"] == "native kernel"]
    assert kernel["state"] == "limited"
    assert "/bin/false failed" in kernel["detail"]
    assert "install a C++ compiler" in kernel["remedy"]
    (tmp_path / "train.py").write_text(FAULTY)
    tensight("run", "--no-page", "--run-dir", "run", "--report", "report.json", "train.py")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["run"]["steps"] == 12
    assert report["findings"][0]["since_step"] == 6


def test_no_file_needs_a_newer_python_than_3_10() -> None:
    found = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))
        found += [f"{path.relative_to(ROOT)}: {name}" for name in newer(tree)]
    assert found == []


def newer(tree: ast.Module) -> Iterator[str]:
    """Names of the standard library that 3.10 has not; what stands under a check of the version is meant."""
    names: dict[str, str] = {}
    for node in outside_checks(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{one.name}" for one in node.names if one.name in NEWER.get(node.module, ()))
            if node.module in NEWER_MODULES:
                yield node.module
        elif isinstance(node, ast.Import):
            names |= {one.asname or one.name: one.name for one in node.names}
            yield from (one.name for one in node.names if one.name in NEWER_MODULES)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id, "")
            if node.attr in NEWER.get(module, ()):
                yield f"{module}.{node.attr}"


def outside_checks(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "version_info" in ast.dump(child.test):
            continue
        yield child
        yield from outside_checks(child)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from enum import StrEnum", ["enum.StrEnum"]),
        ("import datetime as d\nd.UTC", ["datetime.UTC"]),
        ("import tomllib", ["tomllib"]),
        ("import sys\nif sys.version_info >= (3, 11):\n    import tomllib", []),
    ],
)
def test_the_check_of_names_finds_newer_ones(text: str, found: list[str]) -> None:
    assert list(newer(ast.parse(text))) == found


def test_the_check_of_syntax_finds_newer_syntax() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("try:\n    pass\nexcept* ValueError:\n    pass\n", feature_version=(3, 10))


if os.environ.get("TENSIGHT_FULL") == "1":  # a new environment is made and filled, which takes a minute and an index

    def test_installed_from_the_wheel_without_compiler_node_or_torch_viewing_works(wheel: Path, tmp_path: Path) -> None:
        place = tmp_path / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=LONG)
        python = place / "bin" / "python"
        words = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel)]
        subprocess.run(words, check=True, timeout=LONG, capture_output=True)
        shutil.copytree(ROOT / "tests/store/golden/v1", tmp_path / "runs/golden")
        nothing = tmp_path / "nothing"
        nothing.mkdir()
        environ = {"PATH": str(nothing), "HOME": str(tmp_path), "TENSIGHT_STATE": str(tmp_path / "state")}
        missing = subprocess.run([str(python), "-c", "import torch"], env=environ, capture_output=True, timeout=LONG)
        assert missing.returncode != 0
        with subprocess.Popen(
            [str(place / "bin" / "tensight"), "view", "runs", "--port", "0"],
            cwd=tmp_path,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                printed = iter(process.stdout.readline, "")
                address = next(word for line in printed for word in line.split() if "token=" in word)
                with httpx.Client(trust_env=False, follow_redirects=True, timeout=LONG) as page:
                    assert "<div id=" in until(lambda: page.get(address).text)
                    base = address.partition("/?")[0]
                    [run] = page.get(f"{base}/api/runs").json()
                    assert run["id"] == "golden"
                    assert page.get(f"{base}/api/runs/golden/steps").status_code == 200
            finally:
                process.kill()
