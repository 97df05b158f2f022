"""Verify the bundles that `bench items` wrote, with nothing but bundle and key: `python -m bench._items.verify FOLDER`.

Every step must pass, replay included. BENCH_SAMPLE_BUNDLES says how many.
"""

import statistics
import sys
import time
from pathlib import Path

from bench._items.samples import BUNDLES
from bpc.core.audit.signing import parse_public_key
from bpc.core.verify.item_bundle import verify_anything


def main(folder: Path) -> int:
    digits = (folder / "issuer.key").read_text().strip().partition("=")[2]
    pins = [parse_public_key(bytes.fromhex(digits))]
    seconds, sizes, failed = [], [], []
    for path in sorted(folder.glob("*.zip"))[:BUNDLES]:
        data = path.read_bytes()
        started = time.process_time()
        report = verify_anything(data, pins=pins, require_pin=True)
        seconds.append(time.process_time() - started)
        sizes.append(len(data))
        if report.failed_steps or not any(step.name == "replay" and step.ok for step in report.steps):
            failed.append(path.name)
    print(
        f"{len(seconds):,} bundles of {statistics.median(sizes):,.0f} bytes verified, {len(failed):,} failed; "
        f"{statistics.median(seconds) * 1e3:,.0f} ms of a processor each, the first {seconds[0] * 1e3:,.0f} ms"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
