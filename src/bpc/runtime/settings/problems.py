"""What is wrong with settings: one sentence for each, and the error that carries all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

READ_MORE: Final = "docs/configuration.md lists every setting with its default"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingProblem:
    """One missing or wrong setting; `also` names the other settings in its sentence. It never contains a value."""

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

    def __init__(self, problems: Sequence[SettingProblem], *, fix: str = READ_MORE) -> None:
        self.problems = tuple(problems)
        self.says = _join_sentences(self.problems)
        self.fix = fix
        self.details: Mapping[str, object] = {
            "problems": [{"name": problem.name, "says": problem.sentence} for problem in self.problems]
        }
        super().__init__(self.says)

    @classmethod
    def for_setting(cls, name: str, sentence: str, *, fix: str) -> "ConfigMissing":
        """One problem and its own way out."""
        return cls([SettingProblem(name=name, sentence=sentence)], fix=fix)


def _join_sentences(problems: tuple[SettingProblem, ...]) -> str:
    sentences = [problem.sentence for problem in problems]
    if len(sentences) == 1:
        return sentences[0]
    return f"{len(sentences)} settings are missing or wrong: " + "; ".join(sentences)
