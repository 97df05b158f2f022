"""Guards that may reach this machine, and name servers that answer as a test wants."""

from collections.abc import Sequence

from bpc.outbound import Guard, Resolve

LOCAL_ADDRESSES = ("127.0.0.0/8", "::1")


def resolve_to(*addresses: str) -> Resolve:
    async def answer(host: str, port: int) -> Sequence[str]:
        return addresses

    return answer


def make_open_guard(**settings: object) -> Guard:
    return Guard(**{"allow": LOCAL_ADDRESSES, "https_only": False, "max_seconds": 5.0} | settings)  # type: ignore[arg-type]
