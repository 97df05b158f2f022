"""Drawn diagrams of the architecture: the eight steps, the layers, the processes.

What they say is read from where it is true: steps from the folder of the pipeline, layers from the contract of
import-linter. What is only explained here, one line each, is compared with those.
"""

import tomllib
from pathlib import Path
from typing import Final

from bpc.printing.drawing import Drawing

ROOT: Final = Path(__file__).resolve().parents[2]
# Each step of src/bpc/pipeline: what it does, in a few words on two lines.
STEPS: Final = {
    "upload": ("a supplier's", "document"),
    "facts": ("each value", "with its place"),
    "snapshot": ("those facts,", "sealed"),
    "compile": ("rules applied,", "each step proven"),
    "sign": ("Ed25519", "receipt"),
    "qr": ("a code for", "the battery"),
    "activate": ("now the", "valid version"),
    "replay": ("computed again,", "byte for byte"),
}
LAYERS: Final = {
    "cli": "the command line",
    "api": "HTTP, GraphQL",
    "worker": "runs jobs",
    "signer": "holds the keys",
    "tasks": "jobs that are no step of the pipeline",
    "pipeline": "the eight steps: read, decide, write, queue the next",
    "storage": "hand-written SQL",
    "outbound": "calls to others",
    "printing": "PDF, pictures",
    "runtime": "PostgreSQL, settings, logs, clock",
    "core": "what is true: pure functions, without clock, disk, network",
}


def list_layers() -> list[list[str]]:
    """The layers as the linter proves them, from above."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract.get("containers") == ["bpc"]]
    return [layer.split(" | ") for layer in layers if layer != "__main__"]


def draw_pipeline() -> str:
    drawing = Drawing(900, 330, title="From a supplier's document to a passport", description=" → ".join(STEPS))
    drawing.draw_text(24, 36, "From a supplier's document to a passport that anyone can check", size=18, bold=True)
    width, height, gap = 186.0, 84.0, 36.0
    for at, (name, says) in enumerate(STEPS.items()):
        row, column = divmod(at, 4)
        x = 24 + column * (width + gap)
        y = 62 + row * 128
        fill, stroke = ("blue-panel", "blue") if name == "compile" else ("panel", "line")
        drawing.draw_box(x, y, width, height, fill=fill, stroke=stroke)
        drawing.draw_text(x + 14, y + 29, f"{at + 1}  {name}", size=18, bold=True)
        for line, text in enumerate(says):
            drawing.draw_text(x + 14, y + 52 + 20 * line, text, fill="muted")
        if column < 3:
            drawing.draw_line([(x + width + 4, y + 42), (x + width + gap - 3, y + 42)], stroke="muted", arrow=True)
    drawing.draw_line([(783, 148), (783, 168), (117, 168), (117, 186)], stroke="muted", arrow=True)
    drawing.draw_text(
        24, 306, "Every write is an event in a hash-chained audit log, one for each tenant.", fill="muted"
    )
    return drawing.render()


def draw_layers() -> str:
    layers = list_layers()
    drawing = Drawing(
        900,
        96 + len(layers) * 62,
        title="The layers of the code",
        description="; ".join(" | ".join(layer) for layer in layers),
    )
    drawing.draw_text(24, 36, "The layers: an import points down, never up", size=18, bold=True)
    for row, names in enumerate(layers):
        y, whole, gap = 56 + row * 62, 824.0, 12.0
        width = (whole - gap * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            x = 24 + column * (width + gap)
            fill, stroke = ("green-panel", "green") if name == "core" else ("panel", "line")
            drawing.draw_box(x, y, width, 50, fill=fill, stroke=stroke)
            drawing.draw_text(x + 14, y + 31, name, size=17, bold=True)
            drawing.draw_text(x + width - 14, y + 31, LAYERS[name], anchor="end", fill="muted")
    bottom = 56 + len(layers) * 62 - 12
    drawing.draw_line([(868, 62), (868, bottom - 4)], stroke="muted", arrow=True)
    drawing.draw_text(
        24,
        bottom + 28,
        "Beside them, packages of their own: service_jobs, bpc_client. import-linter proves all of it.",
        fill="muted",
    )
    return drawing.render()


def draw_processes() -> str:
    drawing = Drawing(
        900,
        418,
        title="The processes of an installation",
        description="clients call the API; the API and workers share one PostgreSQL; workers deliver webhooks",
    )
    drawing.draw_text(24, 36, "What runs, and who talks to whom", size=18, bold=True)
    _draw_process(drawing, 24, 70, 200, ("clients", "curl, ERP, bpc, a phone"), "panel", "line")
    _draw_process(drawing, 338, 70, 224, ("bpc api", "one process or many"), "blue-panel", "blue")
    _draw_process(drawing, 338, 290, 224, ("bpc worker", "one process or many"), "blue-panel", "blue")
    _draw_process(drawing, 660, 180, 216, ("PostgreSQL", "embedded, or your own"), "green-panel", "green")
    _draw_process(drawing, 24, 290, 200, ("receivers", "webhooks, documents"), "panel", "line")
    for points, label, place in (
        ([(224, 105), (334, 105)], "HTTPS", (279, 96)),
        ([(334, 325), (228, 325)], "HTTPS", (281, 316)),
    ):
        drawing.draw_line(points, stroke="muted", arrow=True)
        drawing.draw_text(*place, label, size=14, anchor="middle", fill="muted")
    drawing.draw_line([(562, 105), (768, 105), (768, 176)], stroke="muted", arrow=True)
    drawing.draw_text(665, 84, "one transaction:", size=14, anchor="middle", fill="muted")
    drawing.draw_text(665, 128, "effect, event, answer, job", size=14, anchor="middle", fill="muted")
    drawing.draw_line([(562, 325), (768, 325), (768, 254)], stroke="muted", arrow=True)
    drawing.draw_text(665, 316, "claims jobs,", size=14, anchor="middle", fill="muted")
    drawing.draw_text(665, 346, "ends them with their writes", size=14, anchor="middle", fill="muted")
    drawing.draw_line([(450, 140), (450, 286)], stroke="muted", dashed=True)
    drawing.draw_text(438, 208, "they never call each other:", size=14, anchor="end", fill="muted")
    drawing.draw_text(438, 228, "the queue is in the database", size=14, anchor="end", fill="muted")
    drawing.draw_text(24, 396, "`bpc up` starts all of it on one machine, and restarts what dies.", fill="muted")
    return drawing.render()


def _draw_process(
    drawing: Drawing, x: float, y: float, width: float, says: tuple[str, str], fill: str, stroke: str
) -> None:
    drawing.draw_box(x, y, width, 70, fill=fill, stroke=stroke)
    drawing.draw_text(x + width / 2, y + 31, says[0], size=17, anchor="middle", bold=True)
    drawing.draw_text(x + width / 2, y + 53, says[1], anchor="middle", fill="muted")
