"""In which order fields are computed, and which of them need each other in a circle.

BPC-GRAPH-1: Kahn's algorithm; of all fields that could come next, the one with the least path (by bytes). Everything
here is a loop: a package may have tens of thousands of fields.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

Needs = Mapping[str, Sequence[str]]


def evaluation_order(needs: Needs) -> list[str]:
    """The fields whose needs can all be met, each after what it needs. Every need is itself a field of `needs`."""
    missing = {path: len(read) for path, read in needs.items()}
    readers: dict[str, list[str]] = {path: [] for path in needs}
    for path, read in needs.items():
        for other in read:
            readers[other].append(path)
    ready = [path for path, count in missing.items() if not count]
    heapify(ready)
    order = []
    while ready:
        path = heappop(ready)
        order.append(path)
        for reader in readers[path]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    return order


def cycles(needs: Needs) -> list[list[str]]:
    """One shortest circle through the first field of each group that needs itself, in the order of `needs`.

    A field that reads itself is a circle of its own: `["a"]`.
    """
    computable = set(evaluation_order(needs))
    left = {path: [other for other in read if other not in computable] for path, read in needs.items()}
    stuck = {path: read for path, read in left.items() if path not in computable}
    found = [[path] for path, read in stuck.items() if path in read]
    without_self = {path: [other for other in read if other != path] for path, read in stuck.items()}
    for group in _groups(without_self):
        if len(group) > 1:
            members = set(group)
            found.append(_circle(group[0], without_self, members))
    place = {path: index for index, path in enumerate(needs)}
    return sorted(found, key=lambda circle: (place[circle[0]], len(circle)))


def _circle(start: str, needs: Needs, members: set[str]) -> list[str]:
    """The shortest way from `start` back to it within its group."""
    came_from: dict[str, str] = {}
    waiting = deque([start])
    while waiting:
        path = waiting.popleft()
        for other in needs[path]:
            if other == start:
                return _way(start, path, came_from)
            if other in members and other not in came_from:
                came_from[other] = path
                waiting.append(other)
    raise ValueError(f"`{start}` is in no circle")


def _way(start: str, end: str, came_from: Mapping[str, str]) -> list[str]:
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _groups(needs: Needs) -> Iterable[list[str]]:
    """Tarjan's strongly connected components, each in the order of `needs`."""
    place = {path: index for index, path in enumerate(needs)}
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    stacked: set[str] = set()
    for root in needs:
        if root in number:
            continue
        work = [(root, iter(needs[root]))]
        number[root] = lowest[root] = len(number)
        stack.append(root)
        stacked.add(root)
        while work:
            path, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    stack.append(other)
                    stacked.add(other)
                    work.append((other, iter(needs[other])))
                    break
                if other in stacked:
                    lowest[path] = min(lowest[path], number[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[path])
                if lowest[path] == number[path]:
                    yield sorted(_popped(stack, stacked, path), key=place.__getitem__)


def _popped(stack: list[str], stacked: set[str], path: str) -> list[str]:
    group = []
    while True:
        top = stack.pop()
        stacked.discard(top)
        group.append(top)
        if top == path:
            return group
