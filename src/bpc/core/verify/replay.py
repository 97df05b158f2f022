"""Step `replay`: compiling the bundle's input again gives its bytes.

Pure. The one step that uses the production compiler; every other finds out without it. The comparison itself is
bpc.core.replay.
"""

from bpc.core.verify.structure import Opened


def check_replay(opened: Opened) -> str:
    from bpc.core.replay import replay  # noqa: PLC0415 (the compiler is loaded only where everything else holds)

    replay(opened.entries)
    return "compiling again gives the same payload, proof and receipt, byte for byte"
