"""Policies, C2SP tlog-policy: which logs and witnesses somebody trusts, and how many witnesses are enough.

    log <verifier key> [<url>]
    witness <name> <verifier key> [<url>]
    group <name> all|any|<number> <name> …
    quorum <name>|none

Pure. Names stand for witnesses and groups inside the file and mean nothing elsewhere.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.tlog.notes import BadVerifierKey, SignatureType, VerifierKey

MAX_POLICY_BYTES: Final = 1 << 20
MAX_OF_EACH: Final = 32
NO_QUORUM: Final = "none"
_THRESHOLD: Final = re.compile("[1-9][0-9]{0,2}")


class BadLogPolicy(Invalid):
    """The file is not a policy; `line` is where."""

    def __init__(self, line: int | None, reason: str) -> None:
        where = "the log policy" if line is None else f"line {line} of the log policy"
        super().__init__(f"{where} {reason}", fix="correct the file; docs/log.md shows one")


class TrustedLog(NamedTuple):
    """A log that a policy names."""

    key: VerifierKey
    url: str | None


class Witness(NamedTuple):
    """A witness that a policy names."""

    key: VerifierKey
    url: str | None


class WitnessGroup(NamedTuple):
    """Members of which `threshold` must have cosigned."""

    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPolicy:
    """Logs and witnesses that somebody trusts. The quorum names a witness or a group, or nothing is needed."""

    logs: tuple[TrustedLog, ...]
    witnesses: Mapping[str, Witness]
    groups: Mapping[str, WitnessGroup]
    quorum: str

    def find_log(self, origin: str) -> TrustedLog | None:
        return next((log for log in self.logs if log.key.name == origin), None)

    def is_met(self, cosigners: Collection[str]) -> bool:
        """Whether the witnesses with these names are enough."""
        return self.quorum == NO_QUORUM or self._counts(self.quorum, cosigners)

    def _counts(self, name: str, cosigners: Collection[str]) -> bool:
        group = self.groups.get(name)
        if group is None:
            return name in cosigners
        return sum(self._counts(member, cosigners) for member in group.members) >= group.threshold


def parse_policy(data: bytes) -> LogPolicy:
    """The policy of a file; `BadLogPolicy` names the line that is wrong."""
    if len(data) > MAX_POLICY_BYTES:
        raise BadLogPolicy(None, f"has more than {MAX_POLICY_BYTES:,} bytes")
    reader = _PolicyReader()
    # Names are opaque bytes: latin-1 gives each byte a character, and none changes.
    for number, line in enumerate(data.decode("latin-1").split("\n"), 1):
        if any(character < " " and character != "\t" for character in line) or "\x7f" in line:
            raise BadLogPolicy(number, "contains a control character")
        items = line.replace("\t", " ").split(" ")
        words = [item for item in items if item]
        if words and not words[0].startswith("#"):
            reader.read_line(number, words)
    return reader.finish()


class _PolicyReader:
    """What the lines so far have defined."""

    def __init__(self) -> None:
        self._logs: list[TrustedLog] = []
        self._witnesses: dict[str, Witness] = {}
        self._groups: dict[str, WitnessGroup] = {}
        self._members: set[str] = set()
        self._quorum: str | None = None

    def read_line(self, number: int, words: list[str]) -> None:
        readers = {
            "log": self._read_log,
            "witness": self._read_witness,
            "group": self._read_group,
            "quorum": self._read_quorum,
        }
        read = readers.get(words[0])
        if read is None:
            raise BadLogPolicy(number, "does not begin with log, witness, group or quorum")
        read(number, words[1:])

    def finish(self) -> LogPolicy:
        if self._quorum is None:
            raise BadLogPolicy(None, "has no quorum line")
        return LogPolicy(logs=tuple(self._logs), witnesses=self._witnesses, groups=self._groups, quorum=self._quorum)

    def _read_log(self, number: int, words: list[str]) -> None:
        if len(words) not in {1, 2}:
            raise BadLogPolicy(number, "is not of the form `log <verifier key> [<url>]`")
        key = _parse_key(number, words[0])
        if key.type != SignatureType.ED25519:
            raise BadLogPolicy(number, "names a key that is not a log's: it must be of type 1")
        if any(log.key.public_key == key.public_key for log in self._logs):
            raise BadLogPolicy(number, "names a log a second time")
        self._logs.append(TrustedLog(key, words[1] if len(words) == 2 else None))
        _require_few(number, self._logs, "logs")

    def _read_witness(self, number: int, words: list[str]) -> None:
        if len(words) not in {2, 3}:
            raise BadLogPolicy(number, "is not of the form `witness <name> <verifier key> [<url>]`")
        name, key = self._require_new_name(number, words[0]), _parse_key(number, words[1])
        if key.type == SignatureType.ED25519:
            raise BadLogPolicy(number, "names a key that is not a witness's: it must be of type 4 or 6")
        if any(witness.key.public_key == key.public_key for witness in self._witnesses.values()):
            raise BadLogPolicy(number, "names a witness a second time")
        self._witnesses[name] = Witness(key, words[2] if len(words) == 3 else None)
        _require_few(number, self._witnesses, "witnesses")

    def _read_group(self, number: int, words: list[str]) -> None:
        if len(words) < 3:
            raise BadLogPolicy(number, "is not of the form `group <name> all|any|<number> <name> …`")
        name, members = self._require_new_name(number, words[0]), tuple(words[2:])
        for member in members:
            if member not in self._witnesses and member not in self._groups:
                raise BadLogPolicy(number, f"names `{member[:80]}`, which no line before it defines")
            if member in self._members:
                raise BadLogPolicy(number, f"counts `{member[:80]}` a second time")
            self._members.add(member)
        self._groups[name] = WitnessGroup(_parse_threshold(number, words[1], len(members)), members)
        _require_few(number, self._groups, "groups")

    def _read_quorum(self, number: int, words: list[str]) -> None:
        if len(words) != 1:
            raise BadLogPolicy(number, "is not of the form `quorum <name>`")
        if self._quorum is not None:
            raise BadLogPolicy(number, "sets the quorum a second time")
        if words[0] not in {NO_QUORUM, *self._witnesses, *self._groups}:
            raise BadLogPolicy(number, f"names `{words[0][:80]}`, which no line before it defines")
        self._quorum = words[0]

    def _require_new_name(self, number: int, name: str) -> str:
        if name == NO_QUORUM or name in self._witnesses or name in self._groups:
            raise BadLogPolicy(number, f"defines `{name[:80]}` a second time")
        return name


def _parse_key(number: int, text: str) -> VerifierKey:
    try:
        return VerifierKey.parse(text.encode("latin-1").decode())
    except UnicodeDecodeError:
        raise BadLogPolicy(number, "has a key whose name is not UTF-8") from None
    except BadVerifierKey as wrong:
        raise BadLogPolicy(number, f"has a wrong key: {wrong.says}") from None


def _parse_threshold(number: int, word: str, count: int) -> int:
    if word in {"all", "any"}:
        return count if word == "all" else 1
    if not _THRESHOLD.fullmatch(word) or int(word) > count:
        raise BadLogPolicy(number, f"needs `all`, `any` or a number from 1 to {count} after the name")
    return int(word)


def _require_few(number: int, things: Collection[object], noun: str) -> None:
    if len(things) > MAX_OF_EACH:
        raise BadLogPolicy(number, f"is one too many: at most {MAX_OF_EACH} {noun} are allowed")
