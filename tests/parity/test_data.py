"""Images as PIL and torchvision read, resize and list them, through build/bin/image_step."""

from __future__ import annotations

import colorsys
import io
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from safetensors.numpy import load_file
from torchvision.datasets import ImageFolder, VOCDetection
from torchvision.transforms import v2

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("FRN_SHARED_DATA", ROOT.parent / "shared" / "data"))
PROGRAM = Path(os.environ["FRN_LIBRARY"]).resolve().parents[1] / "bin" / "image_step"
SUBSAMPLINGS = {"444": 0, "422": 1, "420": 2}


class Asker:
    """Collects requests, then runs image_step once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.lines: list[str] = []

    def ask(self, what: str, name: str, *words) -> str:
        self.lines.append("\t".join(map(str, (what, name, *words))))
        return name

    def decode(self, name: str, path: Path, region=(0, 0, 0, 0), enough=(0, 0)) -> str:
        """Without `enough`, nothing may be scaled down."""
        enough = enough if any(enough) else region[2:]
        return self.ask("decode", name, path, *region, *enough)

    def answers(self) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
        out = self.folder / "answers.safetensors"
        done = subprocess.run(
            [PROGRAM, out], input="\n".join(self.lines), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        texts: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            name, text = line.split("\t", 1)
            texts.setdefault(name, []).append(text)
        return load_file(out), texts


@pytest.fixture
def asker(tmp_path):
    return Asker(tmp_path)


def photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Smooth waves, edges and some noise: nothing that a decoder could get right by accident."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    image = np.empty((height, width, 3))
    for channel in range(3):
        fy, fx, phase = generator.uniform(0.02, 0.25, 3)
        image[..., channel] = 128 + 90 * np.sin(fy * y + fx * x + 9 * phase) + generator.normal(0, 12, (height, width))
    for _ in range(6):
        top, left = generator.integers(0, height), generator.integers(0, width)
        image[top : top + height // 4, left : left + width // 4] = generator.integers(0, 256, 3)
    return image.clip(0, 255).astype(np.uint8)


def as_rgb(pixels: np.ndarray) -> np.ndarray:
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def jpeg_kinds() -> dict[str, tuple[Image.Image, dict]]:
    colours = Image.fromarray(photo(61, 83))
    kinds = {}
    for text, value in SUBSAMPLINGS.items():
        for progressive in (False, True):
            settings = {"subsampling": value, "progressive": progressive, "quality": 90}
            kinds[f"{text}-{'progressive' if progressive else 'baseline'}"] = (colours, settings)
    kinds["411"] = (colours, {"subsampling": "4:1:1"})
    kinds["grey"] = (colours.convert("L"), {})
    kinds["grey-progressive"] = (colours.convert("L"), {"progressive": True})
    kinds["cmyk"] = (colours.convert("CMYK"), {})
    kinds["rgb-stored"] = (colours, {"keep_rgb": True})
    kinds["restarts"] = (colours, {"restart_marker_blocks": 3})
    kinds["optimised-low-quality"] = (colours, {"optimize": True, "quality": 12})
    kinds["one-pixel"] = (colours.resize((1, 1)), {})
    kinds["one-row"] = (colours.resize((83, 1)), {})
    kinds["one-column"] = (colours.resize((1, 61)), {})
    return kinds


def png_kinds() -> dict[str, tuple[Image.Image, dict]]:
    colours = Image.fromarray(photo(37, 53))
    with_alpha = colours.copy()
    with_alpha.putalpha(Image.fromarray(photo(37, 53, 1)[..., 0]))
    palette = colours.quantize(200)
    return {
        "rgb": (colours, {}),
        "rgba": (with_alpha, {}),
        "grey": (colours.convert("L"), {}),
        "grey-alpha": (with_alpha.convert("LA"), {}),
        "bits": (colours.convert("1"), {}),
        "palette": (palette, {}),
        "palette-transparent": (palette, {"transparency": 3}),
        "palette-2-bits": (colours.quantize(4), {"bits": 2}),
        "palette-4-bits": (colours.quantize(16), {"bits": 4}),
        "rgb-transparent-colour": (colours, {"transparency": (1, 2, 3)}),
        "one-pixel": (colours.resize((1, 1)), {}),
    }


# PIL brings a newer libjpeg-turbo than Debian's; both have the same accurate transform, and the numbers are equal.
@pytest.mark.parametrize("suffix,kinds", [("jpg", jpeg_kinds()), ("png", png_kinds())], ids=["jpeg", "png"])
def test_files_are_decoded_as_pil_decodes_them(asker, tmp_path, suffix, kinds):
    for name, (image, settings) in kinds.items():
        image.save(tmp_path / f"{name}.{suffix}", **settings)
        asker.decode(name, tmp_path / f"{name}.{suffix}")
    ours, texts = asker.answers()
    assert not texts
    for name in kinds:
        expected = np.asarray(Image.open(tmp_path / f"{name}.{suffix}").convert("RGB"))
        np.testing.assert_array_equal(as_rgb(ours[name]), expected, err_msg=name)


def test_16_bit_pngs_keep_their_upper_8_bits(asker, tmp_path):
    """PIL's convert("RGB") cuts 16-bit grey at 255, which leaves white: not what anybody wants."""
    values = np.arange(0, 65536, 41, dtype=np.uint16)[:1596].reshape(38, 42)
    Image.fromarray(values).save(tmp_path / "grey.png")
    asker.decode("grey", tmp_path / "grey.png")
    ours, _ = asker.answers()
    np.testing.assert_array_equal(ours["grey"][..., 0], values >> 8)


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_orientation_turns_images_as_exif_asks(asker, tmp_path, suffix):
    image = Image.fromarray(photo(40, 56))
    for orientation in range(10):
        exif = Image.Exif()
        exif[0x0112] = orientation
        path = tmp_path / f"{orientation}.{suffix}"
        image.save(path, exif=exif, **({"subsampling": 0} if suffix == "jpg" else {}))
        asker.decode(f"whole{orientation}", path)
        asker.decode(f"part{orientation}", path, (5, 9, 20, 13))
    ours, _ = asker.answers()
    for orientation in range(10):
        expected = np.asarray(ImageOps.exif_transpose(Image.open(tmp_path / f"{orientation}.{suffix}")).convert("RGB"))
        np.testing.assert_array_equal(ours[f"whole{orientation}"], expected)
        np.testing.assert_array_equal(ours[f"part{orientation}"], expected[5:25, 9:22])


def test_a_region_is_the_same_as_the_whole_images_part(asker, tmp_path):
    """Everywhere, borders included: the decoder starts a little outside the region."""
    height, width = 150, 211
    generator = np.random.default_rng(3)
    image = Image.fromarray(photo(height, width))
    regions = [(0, 0, height, width), (0, 0, 1, 1), (height - 1, width - 1, 1, 1), (17, 31, 16, 16)]
    for _ in range(60):
        h, w = generator.integers(1, height + 1), generator.integers(1, width + 1)
        regions.append((generator.integers(0, height - h + 1), generator.integers(0, width - w + 1), h, w))
    files = {}
    for text, value in (SUBSAMPLINGS | {"411": "4:1:1"}).items():
        for progressive in (False, True):
            files[f"{text}{progressive}.jpg"] = {"subsampling": value, "progressive": progressive}
    files["png.png"] = {}
    for name, settings in files.items():
        image.save(tmp_path / name, **settings)
        for i, region in enumerate(regions):
            asker.decode(f"{name}{i}", tmp_path / name, region)
    ours, texts = asker.answers()
    assert not texts
    for name in files:
        whole = np.asarray(Image.open(tmp_path / name))
        for i, (top, left, h, w) in enumerate(regions):
            np.testing.assert_array_equal(
                ours[f"{name}{i}"], whole[top : top + h, left : left + w], err_msg=f"{name} {regions[i]}"
            )


def test_scaled_reading_gives_the_mean_of_its_pixels(asker, tmp_path):
    """Both sides stay enough, by the largest power of 2 up to 8. The scaled transform is nearly a mean over squares."""
    smooth = photo(256, 320)
    smooth = np.asarray(Image.fromarray(smooth).resize((40, 32)).resize((320, 256), Image.Resampling.BICUBIC))
    Image.fromarray(smooth).save(tmp_path / "a.jpg", quality=100, subsampling=0)
    region = (32, 64, 128, 160)
    wanted = {1: (65, 80), 2: (64, 80), 4: (32, 33), 8: (1, 1)}
    for reduction, enough in wanted.items():
        asker.decode(str(reduction), tmp_path / "a.jpg", region, enough)
    ours, _ = asker.answers()
    whole = np.asarray(Image.open(tmp_path / "a.jpg")).astype(float)[32:160, 64:224]
    for reduction in wanted:
        part = ours[str(reduction)]
        assert part.shape == (128 // reduction, 160 // reduction, 3)
        means = whole.reshape(128 // reduction, reduction, 160 // reduction, reduction, 3).mean(axis=(1, 3))
        assert np.abs(part - means).max() < 4, reduction
        assert np.abs(part - means).mean() < 0.6, reduction


@pytest.mark.parametrize("suffix,settings", [("jpg", {}), ("jpg", {"progressive": True}), ("png", {})])
def test_a_file_that_was_cut_off_is_an_error(asker, tmp_path, suffix, settings):
    buffer = io.BytesIO()
    Image.fromarray(photo(64, 64)).save(buffer, "jpeg" if suffix == "jpg" else "png", **settings)
    whole = buffer.getvalue()
    # The end marks of the formats need not be there: no pixel is missing then.
    ends = list(range(0, 200, 7)) + list(range(200, len(whole) - 64, 97))
    for end in ends:
        (tmp_path / f"{end}.{suffix}").write_bytes(whole[:end])
        asker.decode(str(end), tmp_path / f"{end}.{suffix}")
    ours, texts = asker.answers()
    assert not ours
    assert all(texts[str(end)][0].startswith("[image] ") for end in ends)


def test_decompression_bombs_are_refused(asker, tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(photo(16, 16)).save(buffer, "jpeg")
    data = bytearray(buffer.getvalue())
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = b"\xea\x60\xea\x60"
    (tmp_path / "bomb.jpg").write_bytes(data)
    asker.decode("bomb", tmp_path / "bomb.jpg")
    _, texts = asker.answers()
    assert "at most 178956970 pixels but its size is 60000x60000" in texts["bomb"][0]


def test_resize_is_pils(asker, tmp_path):
    """ATen's weights have 8-bit fractions or more, PIL's 22 bits: rounding may differ by one."""
    sizes = [(224, 224), (7, 5), (299, 299), (150, 211), (64, 211), (150, 32)]
    for name, image in {"rgb": photo(150, 211), "grey": photo(150, 211)[..., 0]}.items():
        Image.fromarray(image).save(tmp_path / f"{name}.png")
        for size in sizes:
            asker.ask("resize", f"{name}{size}", tmp_path / f"{name}.png", *size)
    ours, _ = asker.answers()
    for name in ("rgb", "grey"):
        image = Image.open(tmp_path / f"{name}.png")
        for size in sizes:
            expected = np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR)).reshape(*size, -1)
            difference = np.abs(ours[f"{name}{size}"].astype(int) - expected)
            assert difference.max() <= 1, (name, size, difference.max())
            assert (difference > 0).mean() < 0.01, (name, size)


def test_evaluation_sees_what_torchvision_sees(asker, tmp_path):
    Image.fromarray(photo(331, 500)).save(tmp_path / "a.jpg")
    asker.ask("pipeline", "a", tmp_path / "a.jpg", "none", 0, 299, 1)
    ours, _ = asker.answers()
    transform = v2.Compose([v2.Resize((299, 299)), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)])
    expected = transform(Image.open(tmp_path / "a.jpg")).numpy()
    assert np.abs(ours["a"] - expected).max() <= 1.001 / 255


def test_evaluation_of_the_middle_sees_what_torchvision_sees(asker, tmp_path):
    """Resize of the shorter side, then the square in the middle: also where sides round, and where nothing is cut off."""
    cases = [((331, 500), 224, 0.875), ((500, 331), 224, 0.875), ((257, 301), 160, 0.95), ((90, 61), 64, 1.0), ((64, 64), 32, 0.5)]
    for i, (shape, size, crop) in enumerate(cases):
        Image.fromarray(photo(*shape)).save(tmp_path / f"{i}.png")
        asker.ask("pipeline", f"a{i}", tmp_path / f"{i}.png", "none", 0, size, 1, crop)
    ours, _ = asker.answers()
    for i, (_, size, crop) in enumerate(cases):
        steps = [v2.Resize(int(size / crop)), v2.CenterCrop(size), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
        expected = v2.Compose(steps)(Image.open(tmp_path / f"{i}.png")).numpy()
        assert ours[f"a{i}"].shape == expected.shape
        assert np.abs(ours[f"a{i}"] - expected).max() <= 1.001 / 255, cases[i]


# --- Colours, against Python's own colour conversion in float64 ---


def change_in_python(image: np.ndarray, order: str, brightness, saturation, hue, contrast) -> np.ndarray:
    for step in order:
        if step == "b":
            image = image + brightness
        elif step == "c":
            mean = image.mean(axis=(0, 1))
            image = (image - mean) * contrast + mean
        else:
            flat = [colorsys.rgb_to_hsv(*pixel) for pixel in image.reshape(-1, 3)]
            if step == "s":
                flat = [(h, min(1.0, s * saturation), v) for h, s, v in flat]
            else:
                flat = [((h + hue) % 1.0, s, v) for h, s, v in flat]
            image = np.array([colorsys.hsv_to_rgb(*pixel) for pixel in flat]).reshape(image.shape)
    return image.clip(0, 1)


def test_colours_change_as_in_hsv(asker, tmp_path):
    """float32 against float64: hue divides by the range of a pixel's channels, at least 1/255 here, and multiplies by it
    again, so errors stay near 2^-24 times a few."""
    pixels = photo(24, 24) // 2 + 64  # steps between stay within 0 .. 1, where colorsys is defined
    pixels[:2] = pixels[:2, :, :1]  # greys
    Image.fromarray(pixels).save(tmp_path / "a.png")
    cases = [
        ("shbc", 0.0, 1.0, 0.0, 1.0),
        ("shbc", 0.0, 1.5, 0.0, 1.0),
        ("shbc", 0.0, 0.5, 0.0, 1.0),
        ("shbc", 0.0, 1.0, 0.2, 1.0),
        ("shbc", 0.0, 1.0, -0.2, 1.0),
        ("bshc", 0.125, 1.4, 0.15, 1.5),
        ("sbch", -0.125, 0.6, -0.11, 0.5),
        ("chbs", 0.06, 1.2, 0.05, 0.7),
        ("hscb", -0.06, 0.9, 0.19, 1.3),
    ]
    for i, case in enumerate(cases):
        asker.ask("colours", str(i), tmp_path / "a.png", *case)
    ours, _ = asker.answers()
    for i, case in enumerate(cases):
        expected = change_in_python(pixels / 255, *case)
        np.testing.assert_allclose(ours[str(i)].transpose(1, 2, 0), expected, atol=2e-6, err_msg=str(case))


# --- Folders ---


def test_folders_are_listed_as_torchvision_lists_them(asker, tmp_path):
    names = ["b/2.jpg", "b/10.JPG", "b/sub/1.png", "b/a.jpeg", "B/x.PNG", "a b/ä.jpg", "a b/notes.txt", "b/sub2/0.jpg"]
    for split in ("train", "val"):
        for name in names:
            path = tmp_path / "set" / split / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (2, 2)).save(path, "png")
    asker.ask("list", "train", f"imagefolder:{tmp_path / 'set'}", "train")
    ours, texts = asker.answers()
    theirs = ImageFolder(str(tmp_path / "set" / "train"))
    assert texts["train"] == [path for path, _ in theirs.samples]
    assert ours["train"].tolist() == theirs.targets


# --- Boxes ---


def voc_xml(objects) -> str:
    boxes = "".join(
        f"<object>\n<name> {name} </name><difficult>{difficult}</difficult><bndbox><ymax>{ymax}</ymax><xmin>{xmin}</xmin>"
        f"<ymin>{ymin}</ymin><xmax>{xmax}</xmax></bndbox><part><name>head</name></part></object>"
        for name, difficult, xmin, ymin, xmax, ymax in objects
    )
    return f"<annotation><size><width>60</width><height>40</height><depth>3</depth></size>{boxes}</annotation>"


def test_pascal_voc_is_read_as_torchvision_reads_it(asker, tmp_path):
    folder = tmp_path / "VOCdevkit" / "VOC2012"
    for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    images = {
        "2008_000002": [("tvmonitor", 0, 34, 11, 60, 40)],
        "2008_000003": [("train", 1, 1, 1, 2.5, 17.25), ("person", 0, 46, 2, 52, 40)],
        "2007_000027": [],
    }
    for name, objects in images.items():
        (folder / "Annotations" / f"{name}.xml").write_text(voc_xml(objects))
        Image.new("RGB", (60, 40)).save(folder / "JPEGImages" / f"{name}.jpg")
    (folder / "ImageSets/Main/train.txt").write_text("\n".join(images) + "\n")
    asker.ask("boxes", "boxes", f"voc:{folder}", "train")
    ours, texts = asker.answers()
    expected = []
    for i, (_, target) in enumerate(VOCDetection(str(tmp_path), year="2012", image_set="train")):
        for found in target["annotation"].get("object", []):
            left, top, right, bottom = (float(found["bndbox"][side]) for side in ("xmin", "ymin", "xmax", "ymax"))
            box = [left - 1, top - 1, right, bottom]
            area = (box[2] - box[0]) * (box[3] - box[1])
            label = texts["boxes"].index(found["name"].strip())
            expected.append([i + 1, label, *box, float(found["difficult"]), len(expected) + 1, area])
    np.testing.assert_array_equal(ours["boxes"], expected)
    assert len(texts["boxes"]) == 20


def coco_rows(path: Path) -> tuple[list[str], np.ndarray]:
    file = json.loads(path.read_text())
    categories = sorted(file["categories"], key=lambda category: category["id"])
    labels = {category["id"]: label for label, category in enumerate(categories)}
    rows = []
    for image in file["images"]:
        for found in (a for a in file["annotations"] if a["image_id"] == image["id"]):
            x, y, width, height = found["bbox"]
            box = [x, y, x + width, y + height]
            label = labels[found["category_id"]]
            rows.append([image["id"], label, *box, found["iscrowd"], found["id"], found["area"]])
    return [category["name"] for category in categories], np.array(rows, dtype=float)


# --- Real data; absent on most machines ---


def needs(folder: str):
    return pytest.mark.skipif(not (SHARED / folder).is_dir(), reason=f"no {folder} in FRN_SHARED_DATA")


@needs("imagenette-mini")
def test_photographs_are_decoded_as_pil_decodes_them(asker):
    theirs = ImageFolder(str(SHARED / "imagenette-mini" / "val"))
    asker.ask("list", "val", f"imagefolder:{SHARED / 'imagenette-mini'}", "val")
    for i, (path, _) in enumerate(theirs.samples):
        asker.decode(str(i), path)
    ours, texts = asker.answers()
    assert texts["val"] == [path for path, _ in theirs.samples]
    assert ours["val"].tolist() == theirs.targets
    for i, (path, _) in enumerate(theirs.samples):
        expected = np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
        np.testing.assert_array_equal(as_rgb(ours[str(i)]), expected, err_msg=path)


@needs("coco128")
@needs("bccd")
def test_boxes_of_coco_are_those_of_the_file(asker):
    files = {
        "coco128 train": (SHARED / "coco128", "train", "annotations/instances_train2017.json"),
        "coco128 val": (SHARED / "coco128", "val", "annotations/instances_val2017.json"),
        "bccd train": (SHARED / "bccd", "train", "instances_train.json"),
        "bccd val": (SHARED / "bccd", "val", "instances_val.json"),
    }
    for name, (folder, split, _) in files.items():
        asker.ask("boxes", name, f"coco:{folder}", split)
    ours, texts = asker.answers()
    for name, (folder, _, file) in files.items():
        classes, rows = coco_rows(folder / file)
        assert texts[name] == classes
        np.testing.assert_array_equal(ours[name], rows, err_msg=name)
