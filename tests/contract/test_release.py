"""What is released: the wheel and the sdist hold what they should and nothing else, and the papers,
the rules and the history are there."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from tools import release_check

import crosswind

ROOT = Path(__file__).resolve().parents[2]
LARGEST = {"whl": 3_000_000, "gz": 6_000_000}
"""Bytes, about twice of what they are."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both."""
    folder = tmp_path_factory.mktemp("dist")
    release_check.build(ROOT, folder)
    return folder


def files_of(*folders: str) -> set[str]:
    """The files below folders of the repository, by their paths, without what Python leaves."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_the_wheel_holds_the_package_its_studies_and_its_records_and_nothing_else(
    built: Path,
) -> None:
    version = crosswind.__version__
    facts = f"crosswind-{version}.dist-info"
    with zipfile.ZipFile(built / f"crosswind-{version}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        record = list(csv.reader(wheel.read(f"{facts}/RECORD").decode().splitlines()))
        metadata = Parser().parsestr(wheel.read(f"{facts}/METADATA").decode())
        points = wheel.read(f"{facts}/entry_points.txt").decode()
    package = {name.removeprefix("src/") for name in files_of("src/crosswind")}
    studies = {f"crosswind/_{name}" for name in files_of("studies")}
    of_effects = files_of("benchmarks/results/effects")
    records = {
        f"crosswind/_records/{name.removeprefix('benchmarks/results/')}"
        for name in {*of_effects, "benchmarks/results/method-cost.json"}
    }
    records |= {
        f"crosswind/_records/atlas/{name}" for name in ("evidence.parquet", "validation.json")
    }
    described = {
        f"{facts}/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    assert names == package | studies | records | described
    assert len(package) > 400 and {"crosswind/py.typed", "crosswind/__main__.py"} <= package
    assert {name for name, *_ in record} == names  # each once, so that pip removes all of them
    assert "crosswind = crosswind.cli.main:main" in points
    expected = {"Name": "crosswind", "Version": version, "License-Expression": "Apache-2.0"}
    assert {key: metadata[key] for key in expected} == expected
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Requires-Python"] == ">=3.11" and len(metadata["Summary"]) < 512
    assert (ROOT / "README.md").read_text(encoding="utf-8").strip() == str(
        metadata.get_payload()
    ).strip()
    # An index takes web addresses alone.
    assert all("https://" in url for url in metadata.get_all("Project-URL", []))


def test_the_requirements_of_the_wheel_leave_room_beside_other_packages(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        metadata = Parser().parsestr(wheel.read(name).decode())
    requirements = metadata.get_all("Requires-Dist", [])
    assert len(requirements) > 20 and not [
        requirement for requirement in requirements if "==" in requirement.split(";")[0]
    ]
    torch = next(requirement for requirement in requirements if re.match(r"torch\b", requirement))
    assert ">=2.6" in torch and "<3" in torch


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    out = tmp_path / "again"
    subprocess.run([sys.executable, "-c", code, str(out)], cwd=source, check=True, timeout=300)
    (again,), (first,) = out.glob("*.whl"), built.glob("*.whl")
    with zipfile.ZipFile(again) as left, zipfile.ZipFile(first) as right:
        assert sorted(left.namelist()) == sorted(right.namelist())
        assert all(
            left.read(name) == right.read(name)
            for name in left.namelist()
            if name.endswith((".py", ".yaml", ".txt"))
        )
    assert not (source / ".ci").exists() and (source / "tests" / "contract").is_dir()


def test_they_are_small(built: Path) -> None:
    sizes = {path.suffix[1:]: path.stat().st_size for path in built.glob("crosswind*")}
    assert set(sizes) == set(LARGEST)
    assert all(size < LARGEST[ending] for ending, size in sizes.items()), sizes


@pytest.mark.slow
def test_an_index_takes_them_and_a_stray_module_is_complained_of(
    built: Path, tmp_path: Path
) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    release_check.check_archives(wheel, sdist)
    spoiled = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(spoiled, "w") as archive:
        for name in whole.namelist():
            content = whole.read(name)
            if name.endswith("/RECORD"):
                content += b"stray.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
            archive.writestr(name, content)
        archive.writestr("stray.py", "")
    with pytest.raises(release_check.ReleaseError, match=r"(?s)status 1.*stray"):
        release_check.check_archives(spoiled, sdist)


@pytest.mark.slow
def test_the_wheel_alone_serves_in_an_environment_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert release_check.main(["--borrow"]) == 0
    printed = capsys.readouterr().out
    assert len(release_check.SMOKE) == 9
    assert [name for name in release_check.SMOKE if f"  {name}: " in printed] == [
        *release_check.SMOKE
    ]


@pytest.mark.slow
def test_a_wheel_that_fails_a_step_is_refused(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = release_check.new_environment(tmp_path / "environment", sys.executable)
    release_check.install_borrowing(next(built.glob("*.whl")), python)
    steps = {
        "wrong words": (("crosswind", "--version"), "99.0", "'99.0' is not in\ncrosswind "),
        "refused": (("crosswind", "show", "method", "no-such"), "", "status 2\nerror: "),
    }
    for number, (name, (words, expected, complaint)) in enumerate(steps.items()):
        monkeypatch.setattr(release_check, "SMOKE", {name: (words, expected)})
        with pytest.raises(release_check.ReleaseError) as refusal:
            release_check.smoke(python, tmp_path / str(number))
        assert complaint in str(refusal.value), refusal.value


def test_the_four_papers_can_be_cited() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0" and citation["version"] == crosswind.__version__
    assert {"title", "message", "authors", "license"} <= set(citation)
    first = [paper["authors"][0]["family-names"] for paper in citation["references"]]
    assert sorted(first) == ["Jeon", "Ng", "Omran", "Wiles"]
    for paper in citation["references"]:
        assert {"type", "title", "year", "authors"} <= set(paper)
        for author in paper["authors"]:
            assert set(author) == {"given-names", "family-names"}


def test_reports_ask_for_what_is_needed() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 4
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.name == "config.yml":
            continue
        assert {"name", "description", "body"} <= set(form), path.name
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids))
        assert ("doctor" in ids) == (path.name != "wish.yml"), path.name


def test_the_history_is_short() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 25
