"""Run every measurement in this folder, or those named on the command line, and print their tables."""

import importlib
import pkgutil
import sys
from collections.abc import Sequence

import bench


def main(names_wanted: Sequence[str]) -> int:
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))
    unknown = [name for name in names_wanted if name not in names]
    if unknown:
        print(f"no measurement is called `{unknown[0]}`; there are {', '.join(names)}", file=sys.stderr)
        return 2
    for name in names_wanted or names:
        for table in importlib.import_module(f"bench.{name}").run():
            print(f"{table}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
