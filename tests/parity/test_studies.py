"""The published values in studies/*.toml are those of the paper's LaTeX, its claims hold for them, and the scale `paper`
is the paper's setting. The paper is not in this repository: FRN_SHARED names its folder (default: ../shared)."""

import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("FRN_SHARED", ROOT.parent / "shared"))
PAPERS = sorted(SHARED.glob("paper/*.txt"))
STUDIES = {p.stem: tomllib.loads(p.read_text()) for p in sorted((ROOT / "studies").glob("*.toml"))}
OURS = {"table2-rates", "choosing", "practice"}  # no table or figure of the paper
TRAINED = {name: study for name, study in STUDIES.items() if "epsilons" not in study and name not in OURS}
CLASSIFIERS = [name for name in TRAINED if name != "table6"]  # table 6 is about detection
for study in TRAINED.values():
    if "base" in study:
        study.update({key: value for key, value in STUDIES[study["base"]].items() if key not in study})

needs_paper = pytest.mark.skipif(not PAPERS, reason=f"no paper under {SHARED}; FRN_SHARED names the folder that has it")

MACROS = {r"\orelu": "TLU", r"\relu": "ReLU", r"\papername": "FRN", r"\momentnorm": "FRN", r"\ourcomb": "", r"\ours": "",
          r"\kappa": "kappa", r"\tau": "tau", r"\max": "max"}  # fmt: skip


def plain(text):
    text = re.sub(r"~?\\cite\{[^}]*\}", "", text)
    for macro, word in MACROS.items():
        text = text.replace(macro + "{}", word).replace(macro, word)
    text = re.sub(r"\\(textbf|text)\{([^}]*)\}", r"\2", text)
    text = re.sub(r"\\(midrule|cmidrule\(.*?\)\{.*?\})", "", text)
    return re.sub(r"[\s${}]", "", text).lower()


def latex_rows(label):
    """The lines of the table with this label: the name, then the values as texts."""
    tex = PAPERS[0].read_text()
    table = next(t for t in re.findall(r"\\begin\{table\}.*?\\end\{table\}", tex, re.DOTALL) if f"\\label{{{label}}}" in t)
    rows = []
    for line in table.split(r"\\"):
        cells = [plain(cell) for cell in line.split("&")]
        values = [cell for cell in cells if re.fullmatch(r"\d+\.\d\d|diverged", cell)]
        names = [cell for cell in cells if cell not in values]
        if len(values) >= 2:
            rows.append((names, values))
    return rows


def as_text(value):
    return value if isinstance(value, str) else f"{value:.2f}"


def published(study, metric, column=None):
    rows = STUDIES[study]["published"][metric]
    names = [row["name"] for row in STUDIES[study]["row"] if row["name"] in rows]  # table2 has a row of ours
    return [[as_text(v) for v in (rows[name] if column is None else [rows[name][column]])] for name in names]


def same_name(title, names):
    ours = plain(title)
    return any(name and ours.endswith(name) for name in names)


@needs_paper
@pytest.mark.parametrize("study, label", [("table1", "tab:imagenetnormalization"), ("table3", "tab:analyzing_mn_tlu")])
def test_two_networks(study, label):
    rows = latex_rows(label)
    assert len(rows) == len(STUDIES[study]["row"])
    p1, r5 = published(study, "precision_at_1"), published(study, "recall_at_5")
    for i, (names, values) in enumerate(rows):
        assert [p1[i][0], r5[i][0], p1[i][1], r5[i][1]] == values, names
        assert same_name(STUDIES[study]["row"][i]["title"], names), (STUDIES[study]["row"][i]["title"], names)


@needs_paper
@pytest.mark.parametrize("study", ["table2", "figure1"])
def test_batch_sizes(study):
    rows = [values for _, values in latex_rows("tab:imagenet_batchsizes")]
    assert len(rows) == 8 and [c["name"] for c in TRAINED[study]["column"]] == ["32", "16", "8", "4", "2", "1"]
    assert [list(map(as_text, v)) for v in TRAINED[study]["published"]["precision_at_1"].values()] == rows[:4]
    if study == "table2":
        assert published(study, "precision_at_1") == rows[:4]
        assert published(study, "recall_at_5") == rows[4:]


@needs_paper
def test_fully_connected():
    rows = latex_rows("tab:vggaimagenet")
    assert len(rows) == 8
    for column, half in enumerate((rows[:4], rows[4:])):
        for i, (names, values) in enumerate(half):
            ours = [published("table4", metric, column)[i][0] for metric in ("precision_at_1", "recall_at_5")]
            assert values[-2:] == ours, names  # a rate may look like a value
            assert same_name(STUDIES["table4"]["row"][i]["title"], names), names
            assert str(STUDIES["table4"]["column"][column]["lr_base"]) in names + values


@needs_paper
def test_activations():
    rows = latex_rows("tab:compare_tlu")
    assert len(rows) == 6
    for i, (names, values) in enumerate(rows):
        assert [published("table5", m, 0)[i][0] for m in ("precision_at_1", "recall_at_5")] == values
        assert same_name(STUDIES["table5"]["row"][i]["title"], names), (STUDIES["table5"]["row"][i]["title"], names)


@needs_paper
def test_curves_end_where_table_1_says():
    assert [v[0] for v in published("figure-curves", "precision_at_1")] == [values[0] for _, values in latex_rows("tab:imagenetnormalization")]


def value(study, cell, metric):
    row, column = cell
    values = study.get("published", {}).get(metric, {}).get(row)
    return None if values is None else values[[c["name"] for c in study["column"]].index(column)]


def cells(study, claim, key):
    columns = claim.get("columns") or [c["name"] for c in study["column"]]
    out = []
    for name in claim[key]:
        row, _, column = name.partition("@")
        out += [(row, column)] if column else [(row, c) for c in columns]
    return out


def comparable(claim, a, b):
    named = all("@" in name for key in ("higher", "lower", "close") for name in claim.get(key, []))
    return a[1] == b[1] or named


@pytest.mark.parametrize("name", TRAINED)
def test_claims_hold_for_the_published_values(name):
    study = TRAINED[name]
    compared = 0
    for claim in study["claim"]:
        metric = claim.get("metric", "precision_at_1")
        if metric not in study["published"]:
            continue
        at = lambda cell: value(study, cell, metric)  # noqa: B023, E731
        for cell in cells(study, claim, "diverges") if "diverges" in claim else []:
            assert at(cell) == "diverged"
            compared += 1
        for a in cells(study, claim, "higher") if "higher" in claim else []:
            for b in cells(study, claim, "lower"):
                if not comparable(claim, a, b):
                    continue
                assert at(b) == "diverged" or round(at(a) - at(b), 6) > claim.get("by", 0), (claim["text"], a, b)
                compared += 1
        close = cells(study, claim, "close") if "close" in claim else []
        for a in close:
            for b in close:
                if len(claim["close"]) == 1 or comparable(claim, a, b):
                    assert abs(at(a) - at(b)) <= claim["within"], (claim["text"], a, b)
                    compared += 1
    assert compared > 0


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_scale_paper_is_the_papers_setting(name):
    scale = TRAINED[name]["scale"]["paper"]
    assert scale["steps"] == 300_000 and scale["devices"] == 8 and scale["image_size"] == 299
    assert scale["augmentation"] == "inception" and scale["schedule"] == "cosine"
    assert scale["needs_data"] == "imagefolder:DIR" and "data" not in scale
    if name not in ("table2", "figure1"):
        assert scale["batch_per_device"] == 32
    if name != "table4":
        assert scale["lr_base"] == 0.1


def settings_of(study, scale, row, column):
    """Of a cell, in the order in which later ones win."""
    scale = study["scale"][scale]
    named = lambda key, name: next(line for line in study[key] if line["name"] == name)  # noqa: E731
    texts = ("about", "chance", "needs_data", "random", "seeds", "first_seed", "columns", "row", "column", "cell", "name", "title", "short", "phrase")
    settings = {}
    for layer in (
        scale,
        named("column", column),
        named("row", row),
        scale.get("column", {}).get(column, {}),
        scale.get("row", {}).get(row, {}),
        scale.get("cell", {}).get(f"{row}@{column}", {}),
    ):
        settings.update({key: value for key, value in layer.items() if key not in texts})
    return settings


def smoke_settings(study, row, column):
    return settings_of(study, "smoke", row, column)


IMAGENET = 1_281_167  # images to train on


@pytest.mark.parametrize("name", ["table2", "figure1"])
def test_every_column_of_the_scale_paper_sees_as_many_images(name):
    """Steps follow from the images per device by the rule that the paper has for detection (125,000 x 64/M)."""
    study = TRAINED[name]
    for row in study["row"]:
        for column in study["column"]:
            cell = settings_of(study, "paper", row["name"], column["name"])
            assert cell["batch_per_device"] == int(column["name"]) and cell["devices"] == 8
            assert cell["steps"] == 300_000 * 32 // cell["batch_per_device"], (row["name"], column["name"])
            # The rest of the schedule goes along: the cosine ends with the steps, nothing else is counted in steps.
            assert cell["schedule"] == "cosine" and cell["warmup_steps"] == 0
            assert not {"validate_every", "checkpoint_every", "lr_drops", "epochs"} & set(cell)
            assert round(cell["steps"] * 8 * cell["batch_per_device"] / IMAGENET, 1) == 59.9
    about = study["scale"]["paper"]["about"]
    assert "9,600,000 with 1" in about and "--set steps=300000" in about


@needs_paper
def test_table_6_has_the_papers_values():
    tex = PAPERS[0].read_text()
    table = next(t for t in re.findall(r"\\begin\{table\}.*?\\end\{table\}", tex, re.DOTALL) if r"\label{tab:cocodetection}" in t)
    rows = {}
    for line in table.split(r"\\"):
        cells = [plain(cell) for cell in line.split("&")]
        values = [cell for cell in cells if re.fullmatch(r"\d+\.\d", cell)]
        if len(values) == 9:
            rows[cells[0]] = [float(value) for value in values]
    ours = STUDIES["table6"]["published"]
    for row in ("bn", "gn", "frn"):
        assert ours["AP"][row] + ours["AP50"][row] + ours["AP75"][row] == rows[row], row


def test_table_6_at_scale_paper_is_the_papers_setting():
    study = TRAINED["table6"]
    for row in study["row"]:
        for column in study["column"]:
            cell = settings_of(study, "paper", row["name"], column["name"])
            images = cell["batch_per_device"] * cell["devices"]
            assert cell["model"] == "retinanet-r101" and cell["image_size"] == 1024 and cell["devices"] == 8
            assert cell["steps"] == 125_000 * 64 // images
            # Defaults of detectors are the paper's: tests/train/config_test.cpp.
            assert not {"lr_base", "lr_images", "momentum", "weight_decay", "schedule", "loss_normaliser"} & set(cell)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_scale_says_what_guessing_gives(name):
    """By the classes of its generated images, which are those of its data."""
    for scale in TRAINED[name]["scale"].values():
        classes = int(scale["random"].split("x")[-1])
        assert scale["chance"] == 100 / classes


def test_the_rates_of_table_2_were_found_with_its_own_settings_and_other_seeds():
    table2, rates = STUDIES["table2"], STUDIES["table2-rates"]
    smoke, sweep = table2["scale"]["smoke"], rates["scale"]["smoke"]
    assert sweep["first_seed"] >= smoke["seeds"], "rates chosen on the seeds that are shown"
    assert [row["name"] for row in rates["row"]] == [row["name"] for row in table2["row"]]
    for row in table2["row"]:
        ours = smoke_settings(table2, row["name"], "32")
        assert any(smoke_settings(rates, row["name"], column["name"]) == ours for column in rates["column"]), row["name"]


def test_every_method_of_table_2_has_the_rate_that_was_best_for_it():
    """By the table in docs/results.md, which `frn study table2-rates` printed."""
    text = (ROOT / "docs/results.md").read_text()
    lines = [line for line in text[text.index("frn study table2-rates") :].splitlines() if line.startswith("|")]
    split = lambda line: [cell.strip() for cell in line.strip("|").split("|")]  # noqa: E731
    rates = [float(title) for title in split(lines[0])[2:]]
    assert rates == [column["lr_base"] for column in STUDIES["table2-rates"]["column"]]
    for row, line in zip(STUDIES["table2"]["row"], lines[2:]):
        name, _, *cells = split(line)
        assert name == row["title"]
        means = [float(cell.split()[0]) for cell in cells]
        assert smoke_settings(STUDIES["table2"], row["name"], "32")["lr_base"] == rates[means.index(max(means))], name


def test_no_norm_of_table_2_is_given_other_steps_data_or_augmentation():
    table2 = STUDIES["table2"]
    seen = ("norm", "weights_standardised", "lr_base", "batch_per_device", "devices")
    of = lambda row, column: {k: v for k, v in smoke_settings(table2, row, column).items() if k not in seen}  # noqa: E731
    columns = table2["scale"]["smoke"]["columns"]
    cells = [of(row["name"], column) for row in table2["row"] for column in columns]
    assert all(cell == cells[0] for cell in cells)
    steps = [smoke_settings(table2, "bn", column) for column in columns]
    assert {settings["batch_per_device"] * settings["devices"] for settings in steps} == {32}
