"""Which folders are classes: layouts, refusals, notes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scan_trees import JPEG, by_name, numbered, plant, scan

from shanty.errors import RefusedError, UsageError
from shanty.record.atomic import read_json, write_json
from shanty.scan.dataset import DataSet, ImageList
from shanty.scan.training import scan_images, scan_labelled
from shanty.spec.codec import from_dict, to_dict


def test_classes_are_sorted_by_code_point_and_by_nothing_else(tmp_path: Path) -> None:
    names = ["1", "10", "2", "B", "a", "A", "나", "가"]
    data = scan(plant(tmp_path, [f"{n}/{i}.jpg" for n in names for i in range(2)]))
    assert data.classes == ("1", "10", "2", "A", "B", "a", "가", "나")
    assert by_name(data) == {f"{n}/{i}.jpg": n for n in names for i in range(2)}
    assert data.layout == "class folders"


def test_nested_folders_belong_to_their_class(tmp_path: Path) -> None:
    data = scan(plant(tmp_path, ["a/1.jpg", "a/deep/er/2.jpg", "b/x/1.jpg"]))
    assert by_name(data) == {"a/1.jpg": "a", "a/deep/er/2.jpg": "a", "b/x/1.jpg": "b"}


@pytest.mark.parametrize("val", ["val", "valid", "Validation"])
@pytest.mark.parametrize("train", ["train", "Training"])
def test_train_and_val_folders(tmp_path: Path, train: str, val: str) -> None:
    plant(tmp_path, [f"{p}/{c}/1.jpg" for p in (train, val, "test") for c in "ab"])
    data = scan(tmp_path)
    assert data.layout == "train and val folders"
    assert [s.path for s in data.train] == [f"{train}/a/1.jpg", f"{train}/b/1.jpg"]
    assert [s.path for s in data.val] == [f"{val}/a/1.jpg", f"{val}/b/1.jpg"]
    assert data.notes == ("the folder 'test' takes no part in training",)


def test_a_train_folder_alone_is_split_and_test_is_no_validation(tmp_path: Path) -> None:
    plant(tmp_path, [*numbered("train/a", 4), *numbered("train/b", 4), "test/a/1.jpg", "val/"])
    data = scan(tmp_path)
    assert data.layout == "train folder"
    assert (len(data.train), len(data.val)) == (6, 2)
    assert all(s.path.startswith("train/") for s in data.val)
    assert "the folder 'val' holds no file and is left out" in data.notes


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    data = scan(plant(tmp_path, ["train/1.jpg", "plane/1.jpg", "car/1.jpg"]))
    assert data.classes == ("car", "plane", "train")


def test_flat_train_and_test_folders_are_not_two_classes(tmp_path: Path) -> None:
    plant(tmp_path, [*numbered("train", 3), *numbered("test", 3)])
    plant(tmp_path, ["sample_submission.csv", "train.csv"])
    with pytest.raises(RefusedError, match=r"3 images lie directly in .*/train") as caught:
        scan(tmp_path)
    assert "--set data.labels=train.csv" in caught.value.hint


def test_folders_that_can_be_read_in_two_ways_are_refused(tmp_path: Path) -> None:
    plant(tmp_path, ["train/steam/1.jpg", "train/diesel/1.jpg", "plane/1.jpg"])
    with pytest.raises(RefusedError, match=r"two ways.*'train'.*'plane'"):
        scan(tmp_path)


def test_two_validation_folders_are_refused(tmp_path: Path) -> None:
    plant(tmp_path, [f"{p}/{c}/1.jpg" for p in ("train", "val", "valid") for c in "ab"])
    with pytest.raises(RefusedError, match="'val', 'valid' lie beside each other"):
        scan(tmp_path)


def test_val_without_train_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, ["val/a/1.jpg", "val/b/1.jpg", "test/a/1.jpg"])
    with pytest.raises(RefusedError, match=r"'val', 'test' but no train folder"):
        scan(tmp_path)


def test_a_train_folder_given_alone_says_that_val_lies_beside_it(tmp_path: Path) -> None:
    plant(tmp_path, [f"{p}/{c}/1.jpg" for p in ("train", "val") for c in "ab"])
    assert any("'val' beside it is not used" in n for n in scan(tmp_path / "train").notes)


def test_a_missing_folder_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(UsageError, match="there is no folder") as caught:
        scan(tmp_path / "photo")
    assert "'photos'" in caught.value.hint


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    plant(tmp_path, ["set.zip"])
    with pytest.raises(UsageError, match="is a file, not a folder") as caught:
        scan(tmp_path / "set.zip")
    assert "unpack" in caught.value.hint


def test_no_images_names_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"no images in .*: it is empty"):
        scan(tmp_path)
    plant(tmp_path, ["a/1.heic", "a/2.HEIC", "b/x", ".hidden/1.jpg"])
    with pytest.raises(RefusedError, match=r"no images in .*: 2 \.heic, 1 without extension"):
        scan(tmp_path)


def test_a_flat_folder_is_refused_and_the_parent_named(tmp_path: Path) -> None:
    plant(tmp_path, ["cats/1.jpg", "cats/2.jpg", "dogs/1.jpg"])
    with pytest.raises(RefusedError, match="2 images lie directly in") as caught:
        scan(tmp_path / "cats")
    assert f"give {tmp_path};" in caught.value.hint


def test_one_class_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, numbered("a", 3))
    with pytest.raises(RefusedError, match=r"only one class, 'a' \(3 images\)"):
        scan(tmp_path)


def test_a_folder_around_the_class_folders_is_named(tmp_path: Path) -> None:
    plant(tmp_path, ["set/a/1.jpg", "set/b/1.jpg"])
    with pytest.raises(RefusedError, match="only one class, 'set'") as caught:
        scan(tmp_path)
    assert "give the folder 'set'" in caught.value.hint


def test_an_empty_class_is_refused_or_left_out_as_configured(tmp_path: Path) -> None:
    plant(tmp_path, ["a/1.jpg", "b/", "c/1.jpg"])
    with pytest.raises(RefusedError, match="1 class has no usable image: 'b'") as caught:
        scan(tmp_path)
    assert "data.empty_class=drop" in caught.value.hint
    data = scan(tmp_path, empty_class="drop")
    assert data.classes == ("a", "c")
    assert by_name(data) == {"a/1.jpg": "a", "c/1.jpg": "c"}
    assert "1 class has no usable image: 'b'; left out" in data.notes


def test_a_class_of_ignored_and_broken_files_names_them(tmp_path: Path) -> None:
    plant(tmp_path, ["a/1.jpg", "b/1.jpg", "c/1.heic", "c/2.heic", "c/3.txt"])
    plant(tmp_path, ["c/4.jpg"], b"")
    with pytest.raises(RefusedError) as caught:
        scan(tmp_path)
    assert "in 'c': 2 .heic, 1 .txt, 1 file that is no image" in caught.value.what


def test_only_broken_images_are_refused(tmp_path: Path) -> None:
    plant(tmp_path, ["a/1.jpg", "b/1.jpg"], b"")
    with pytest.raises(RefusedError, match="none of 2 files named like an image is one"):
        scan(tmp_path)


def test_validation_indices_come_from_the_training_classes(tmp_path: Path) -> None:
    plant(tmp_path, [f"train/{c}/1.jpg" for c in "abc"] + ["val/a/1.jpg", "val/c/1.jpg", "val/b/"])
    empty = scan(tmp_path)
    (tmp_path / "val" / "b").rmdir()
    absent = scan(tmp_path)
    for data in (empty, absent):
        assert data.classes == ("a", "b", "c")
        assert [(s.path, s.label) for s in data.val] == [("val/a/1.jpg", 0), ("val/c/1.jpg", 2)]
        assert "1 class has no image in the validation set: 'b'" in data.notes


def test_an_unknown_validation_class_is_refused_with_its_count(tmp_path: Path) -> None:
    plant(tmp_path, [f"{p}/{c}/1.jpg" for p in ("train", "val") for c in ("cat", "dog")])
    plant(tmp_path, numbered("val/Cat", 4))
    with pytest.raises(RefusedError, match="validation set has 4 images of the class 'Cat'") as e:
        scan(tmp_path)
    assert "did you mean 'cat'" in e.value.hint


def test_a_validation_folder_of_ignored_files_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, ["train/a/1.jpg", "train/b/1.jpg", "val/a/1.heic"])
    with pytest.raises(RefusedError, match=r"no images in .*/val: 1 \.heic"):
        scan(tmp_path)


def test_loose_images_beside_class_folders_take_no_part(tmp_path: Path) -> None:
    data = scan(plant(tmp_path, ["0.jpg", "a/1.jpg", "b/1.jpg"]))
    assert by_name(data) == {"a/1.jpg": "a", "b/1.jpg": "b"}
    assert "1 image lies beside the class folders, taking no part" in data.notes


def test_a_labelled_set_uses_the_classes_it_is_given(tmp_path: Path) -> None:
    plant(tmp_path, ["10/1.jpg", "10/2.jpg"])
    data = scan_labelled(tmp_path, ("2", "10", "1"))
    assert data.classes == ("2", "10", "1")
    assert data.train == ()
    assert {s.label for s in data.val} == {1}
    assert "2 classes have no image in this set: '2', '1'" in data.notes


def test_a_labelled_set_with_a_val_folder_measures_that(tmp_path: Path) -> None:
    plant(tmp_path, [f"{p}/{c}/1.jpg" for p in ("train", "val") for c in "ab"])
    data = scan_labelled(tmp_path, ("a", "b"))
    assert [s.path for s in data.val] == ["val/a/1.jpg", "val/b/1.jpg"]
    assert "the folder 'val' is measured" in data.notes


def test_a_labelled_set_with_an_unknown_class_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, ["a/1.jpg", "d/1.jpg", "d/2.jpg"])
    with pytest.raises(RefusedError, match="2 images of the class 'd'"):
        scan_labelled(tmp_path, ("a", "b"))


def test_a_labelled_set_of_train_and_test_is_not_guessed(tmp_path: Path) -> None:
    plant(tmp_path, [f"{p}/{c}/1.jpg" for p in ("train", "test") for c in "ab"])
    with pytest.raises(RefusedError, match="not clear what to measure"):
        scan_labelled(tmp_path, ("a", "b"))


def test_images_to_predict_are_all_below_the_root_in_order(tmp_path: Path) -> None:
    plant(tmp_path, ["b/1.png", "a.jpg", "b/z/0.jpg", "x.txt"])
    plant(tmp_path, ["bad.jpg"], b"")
    images = scan_images(tmp_path)
    assert images.paths == ("a.jpg", "b/1.png", "b/z/0.jpg", "bad.jpg")
    assert images.bad == (("bad.jpg", "empty file"),)
    assert images.used == {"jpg": 3, "png": 1}
    assert images.ignored == {"txt": 1}


def test_one_image_to_predict(tmp_path: Path) -> None:
    plant(tmp_path, ["x.JPG", "x.txt"])
    images = scan_images(tmp_path / "x.JPG")
    assert (images.root, images.paths) == (str(tmp_path), ("x.JPG",))
    with pytest.raises(UsageError, match=r"x\.txt has no known image extension"):
        scan_images(tmp_path / "x.txt")


def test_values_survive_json_to_the_last_field(tmp_path: Path) -> None:
    plant(tmp_path / "d", ["a/\udcff.jpg", "a/1.jpg", "b/가.jpg", "b/2.txt"])
    plant(tmp_path / "d", ["b/bad.jpg"], b"")
    data, images = scan(tmp_path / "d"), scan_images(tmp_path / "d")
    for value, kind in ((data, DataSet), (images, ImageList)):
        write_json(tmp_path / "value.json", to_dict(value))
        assert from_dict(kind, read_json(tmp_path / "value.json")) == value
        assert from_dict(kind, json.loads(json.dumps(to_dict(value)))) == value


def test_the_digest_sees_every_path_size_label_and_part(tmp_path: Path) -> None:
    root = plant(tmp_path, [*numbered("train/a", 2), *numbered("train/b", 2), "val/a/1.jpg"])
    seen = {scan(root).digest}
    assert len(next(iter(seen))) == 64
    (root / "train/a/0.jpg").write_bytes(JPEG + b"x")
    seen.add(scan(root).digest)
    (root / "train/a/0.jpg").rename(root / "train/a/9.jpg")
    seen.add(scan(root).digest)
    (root / "train/a/9.jpg").unlink()
    seen.add(scan(root).digest)
    (root / "val/a/1.jpg").rename(root / "train/a/1.jpg")
    plant(root, ["val/b/1.jpg"])
    seen.add(scan(root).digest)
    assert len(seen) == 5


def test_the_same_files_made_in_any_order_give_the_same_value(tmp_path: Path) -> None:
    paths = [*numbered("a", 40), *numbered("b", 40), *numbered(f"{'b'}/deep", 5)]
    one = scan(plant(tmp_path / "one", paths))
    two = scan(plant(tmp_path / "two", sorted(paths, key=lambda p: hash((p, 1)))))
    assert replace(two, root=one.root) == one
