"""Your own pictures: a table with a path and attributes, over a folder of images; from these to a
report.

Writes 240 small pictures (a disc or a square, on grass or on sand) and `birds.csv` into a folder,
then runs a study on them: plain training against GroupDRO when the background goes with the class.
Takes about 15 seconds on one core.

    python examples/own_data.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import crosswind as cw

STUDY = """
name: birds
data:
  birds:
    source: table
    options: {path: birds.csv, images: pictures, path_column: file, size: 16}
    label: species
    attributes: [background]
    unit: photographer            # pictures by one photographer never stand in both training and test
    roles: {test: 0.3, validation: 0.2}
shifts:
  none: []
  SC: {type: spurious-correlation, attribute: background, counterexamples: 0.1}
models: [mlp]
methods: {erm: {}, groupdro: {eta: 0.05}}
training: {steps: 60, batch: 32, validate_every: 10}
seeds: 2
"""


def draw_pictures(folder: Path, seed: int = 0) -> None:
    """Write 240 pictures and the table that describes them."""
    chance = np.random.default_rng(seed)
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    lines = ["file,species,background,photographer"]
    for number in range(240):
        species, background = ("gull", "tern")[number % 2], ("sand", "grass")[number // 2 % 2]
        pixels = chance.normal(
            {"sand": (200, 180, 120), "grass": (70, 140, 60)}[background], 20, (16, 16, 3)
        )
        y, x = np.mgrid[:16, :16] - chance.integers(6, 10, (2, 1, 1))
        inside = (y**2 + x**2 < 20) if species == "gull" else (np.maximum(abs(y), abs(x)) < 4)
        pixels[inside] = chance.normal({"gull": 140, "tern": 115}[species], 50, (inside.sum(), 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(
            folder / "pictures" / f"{number}.png"
        )
        lines.append(f"{number}.png,{species},{background},p{number // 4}")
    (folder / "birds.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(folder: Path = Path("birds")) -> cw.StudyResults:
    draw_pictures(folder)
    (folder / "birds.yaml").write_text(STUDY, encoding="utf-8")
    # Paths in a study file are looked for beside it; `crosswind run birds/birds.yaml --out
    # birds/out` does the same.
    results = cw.run_study(folder / "birds.yaml", folder / "out")
    print(results)
    return results


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("birds"))
