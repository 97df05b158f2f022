"""Python source while it is written.

Pure. No text of a rule ever becomes code. The source holds words of our own, numbers we print and names from a table
(`K3` a text, `w2` a function); what those names stand for is handed to the code as its global names, and there are no
others: `__builtins__` is empty.

What compiles differs between Python versions (depth of nesting, length of an expression), so every result goes into a
temporary, and what would be nested deeper than `MAX_DEPTH` becomes a function of its own. So does what would make a
function longer than about `MAX_LINES`: while it compiles a function, Python takes some 7 kB for each line.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

# CPython refuses 100 indents and 21 nested loops; 3.11 is the strictest.
MAX_DEPTH: Final = 12
MAX_LINES: Final = 2000

_TEMPORARY: Final = re.compile(r"\bt[0-9]+\b")


class _OpenFunction(NamedTuple):
    lines: list[str]
    depth: int
    own_temporaries: set[str]


class CodeWriter:
    """A function that is being written, handed to `sink` when it ends. `header` are the first lines of each."""

    def __init__(self, sink: Callable[[str, dict[str, Any]], None], header: Sequence[str] = ()) -> None:
        self.names: dict[str, Any] = {"__builtins__": {}}
        self._sink = sink
        self.depth = 0
        self._header = [f" {line}" for line in header]
        self._registered: dict[tuple[str, Hashable], str] = {}
        self._counts: dict[str, int] = {}
        self._lines: list[str] = []
        self._own_temporaries: set[str] = set()
        self._outer_functions: list[_OpenFunction] = []
        self._temporaries = 0

    @property
    def is_deep(self) -> bool:
        return self.depth >= MAX_DEPTH

    @property
    def is_long(self) -> bool:
        # Each part calls the next: those far inside are longer, so that no rule needs more calls than Python allows.
        return len(self._lines) >= MAX_LINES * (1 + len(self._outer_functions) // 128)

    def write_line(self, text: str) -> None:
        self._lines.append(f"{' ' * self.depth}{text}")

    @contextmanager
    def indent_block(self, opening: str) -> Iterator[None]:
        """What is written inside belongs to the statement `opening`."""
        self.write_line(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def create_temporary(self) -> str:
        """A name nothing else has in this function or in those around it."""
        self._temporaries += 1
        name = f"t{self._temporaries}"
        self._own_temporaries.add(name)
        return name

    def store(self, expression: str) -> str:
        """A temporary that holds what `expression` gives."""
        name = self.create_temporary()
        self.write_line(f"{name} = {expression}")
        return name

    def ensure_temporary(self, atom: str) -> str:
        """`atom` if it is a temporary, else one that holds it: Python warns of `5 is None`."""
        return atom if _TEMPORARY.fullmatch(atom) else self.store(atom)

    def register_text(self, text: str) -> str:
        return self.register("K", text, lambda: text)

    def register(self, prefix: str, key: Hashable, make: Callable[[], object]) -> str:
        """The name of a thing in the table; made when first asked for, known by `key` from then on."""
        name = self._registered.get((prefix, key))
        if name is None:
            number = self._counts.get(prefix, 0)
            self._counts[prefix] = number + 1
            name = self._registered[prefix, key] = f"{prefix}{number}"
            self.names[name] = make()
        return name

    def open_function(self) -> None:
        self._outer_functions.append(_OpenFunction(self._lines, self.depth, self._own_temporaries))
        self._lines, self.depth, self._own_temporaries = [*self._header], 1, set()

    def close_function(self, name: str, parameters: Sequence[str], returned: str) -> None:
        """End the function as `def name(s, …)`; every function is handed the state `s` first."""
        self.write_line(f"return {returned}")
        self._sink("\n".join([f"def {name}({', '.join(['s', *parameters])}):", *self._lines, ""]), self.names)
        self._lines, self.depth, self._own_temporaries = self._outer_functions.pop()

    def close_helper(self, returned: str) -> str:
        """End a function that is a part of the one around it and is handed its temporaries; how to call it."""
        used = set(_TEMPORARY.findall("\n".join([*self._lines, returned])))
        # By number: the order of a set is no order.
        parameters = sorted(used - self._own_temporaries, key=lambda name: int(name[1:]))
        number = self._counts.get("h", 0)
        self._counts["h"] = number + 1
        self.close_function(f"h{number}", parameters, returned)
        return f"h{number}({', '.join(['s', *parameters])})"
