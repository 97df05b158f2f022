"""What is wrong with the configuration, in words that never contain a value.

The name is enough to look a setting up, and a secret pasted behind the wrong name must not reach a log:
sentences say what a value must be, never what it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

READ_MORE: Final = "docs/configuration.md lists every setting with its default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One setting that is missing or wrong; `also` names the other settings its sentence speaks of."""

    name: str
    sentence: str
    also: tuple[str, ...] = ()


class ConfigMissing(Exception):
    """Settings are missing or wrong: all of them, at once.

    It carries what every refusal of ours carries (`code`, `says`, `fix`, `details`) without importing their
    base class: settings know nothing else of ours.
    """

    code: ClassVar[str] = "CONFIG_MISSING"
    retryable: ClassVar[bool] = False

    def __init__(self, problems: Sequence[Problem], *, fix: str = READ_MORE) -> None:
        self.problems = tuple(problems)
        self.says = _said(self.problems)
        self.fix = fix
        self.details: Mapping[str, object] = {
            "problems": [{"name": problem.name, "says": problem.sentence} for problem in self.problems]
        }
        super().__init__(self.says)

    @classmethod
    def of(cls, name: str, sentence: str, *, fix: str) -> "ConfigMissing":
        """One problem and its own way out."""
        return cls([Problem(name=name, sentence=sentence)], fix=fix)


def _said(problems: tuple[Problem, ...]) -> str:
    sentences = [problem.sentence for problem in problems]
    if len(sentences) == 1:
        return sentences[0]
    return f"{len(sentences)} settings are missing or wrong: " + "; ".join(sentences)
