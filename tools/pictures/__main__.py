"""The pictures of the documentation: made from the code, from recorded measurements, and from a recorded demo.

python -m tools.pictures           write docs/pictures
python -m tools.pictures --check   name every picture that is not what would be made now, and exit 1
python -m tools.pictures --record  run `bpc demo` first, and draw what it does now
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.pictures import demo, diagrams, label_sheet, plots, prints

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
PICTURES: Final[dict[str, Callable[[], str | bytes]]] = {
    "pipeline.svg": diagrams.draw_pipeline,
    "layers.svg": diagrams.draw_layers,
    "processes.svg": diagrams.draw_processes,
    "throughput.svg": plots.draw_throughput,
    "latency.svg": plots.draw_latency,
    "passports.svg": plots.draw_passports,
    "demo.svg": demo.draw_cast,
    "proof.svg": demo.draw_field_proof,
    "passport.png": demo.draw_passport,
    "print-de-1.png": prints.draw_first_page,
    "print-de-2.png": prints.draw_data_page,
    "labels.png": label_sheet.draw_label_sheet,
}


def make_picture(name: str) -> bytes:
    picture = PICTURES[name]()
    return picture.encode() if isinstance(picture, str) else picture


def find_differences() -> list[str]:
    """The pictures that are missing, not as they would be made now, or nobody's."""
    extra = [path.name for path in FOLDER.iterdir() if path.name not in PICTURES]
    old = [
        name for name in PICTURES if not (FOLDER / name).exists() or (FOLDER / name).read_bytes() != make_picture(name)
    ]
    return sorted(extra + old)


def main() -> int:
    if "--check" in sys.argv:
        differences = find_differences()
        print("\n".join(f"docs/pictures/{name} is not what is made now: run `make pictures`" for name in differences))
        return 1 if differences else 0
    if "--record" in sys.argv:
        demo.record_demo(Path(sys.executable).with_name("bpc"))
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        data = make_picture(name)
        (FOLDER / name).write_bytes(data)
        print(f"docs/pictures/{name}: {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
