"""What tools/demo.py writes before it starts anything, and what it refuses to remove."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from PIL import Image

from demo import score

DEMO = Path(__file__).resolve().parents[2] / "tools" / "demo.py"


def write(out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEMO), "--only-write", "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_every_digit_is_written_once_and_the_tables_fit_the_images(tmp_path: Path) -> None:
    assert write(tmp_path / "demo").returncode == 0
    digits = tmp_path / "demo" / "digits"
    trained = sorted(digits.glob("train/*/*.png"))
    tested = sorted(path.stem for path in digits.glob("test/*.png"))
    assert len(trained) + len(tested) == 1797
    assert {path.parent.name for path in trained} == set("0123456789")
    with Image.open(trained[0]) as image:
        assert (image.size, image.mode) == ((32, 32), "L")
    template, answers = rows(digits / "sample_submission.csv"), rows(digits / "test_answers.csv")
    assert template[0] == ["id", *"0123456789"]
    assert [row[0] for row in template[1:]] == [row[0] for row in answers[1:]] == tested


def test_a_folder_of_another_is_left_alone_and_its_own_is_made_anew(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    (out / "precious.txt").write_text("mine", "utf-8")
    refused = write(out)
    assert refused.returncode == 3
    assert "was not made by this demo" in refused.stdout
    assert (out / "precious.txt").read_text("utf-8") == "mine"
    assert write(tmp_path / "other").returncode == write(tmp_path / "other").returncode == 0


def test_the_score_matches_rows_by_id_and_columns_by_name(tmp_path: Path) -> None:
    answers, wide, narrow = (tmp_path / name for name in ("a.csv", "wide.csv", "narrow.csv"))
    answers.write_text("id,label\nx,cat\ny,dog\n", "utf-8")
    wide.write_text("id,dog,cat\ny,0.9,0.1\nx,0.7,0.3\n", "utf-8")
    narrow.write_text("id,label\ny,dog\nx,cat\n", "utf-8")
    assert score(wide, answers) == (1, 2)
    assert score(narrow, answers) == (2, 2)
