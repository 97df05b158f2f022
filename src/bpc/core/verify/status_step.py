"""Step `status`: what the issuer says since: in force, superseded, revoked or ceased; or that nobody was asked.

Pure. A bundle or a view may carry a signed statement that names its place in a status list. The list itself, and later
statements, are given by whoever checks, from a file or fetched. Nothing is believed that a key you trust did not sign.
If you trust no key at all, the bundle's own key must have signed it, which shows no more than its signature does.

Checks:
  1. the statement in the file is about this receipt and by its tenant
  2. each document that was given is about this passport: a statement about its receipt, or the list that it names
  3. a key you trust signed each of them, under its name; it is not compromised and no other tenant's
  4. a list that says "in force" is valid now. Other states are not taken back, so an old list still tells them
  5. the worst of what they say counts: revoked before ceased before superseded
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from bpc.core.audit.signing import PinnedKey, PublicKey
from bpc.core.errors import Invalid
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.receipt import Receipt
from bpc.core.status.signed_documents import DocumentSignature
from bpc.core.status.statements import StatementStatus, StatusStatement, read_statement
from bpc.core.status.status_list import LIST_VERSION, PassportState, StatusList, read_status_list
from bpc.core.verify import NOT_ASKED, CheckFailed, StatusVerdict, VerdictName
from bpc.core.verify.artifacts import Pin, group_names_by_key

# How far the clock of the list's issuer may be ahead of yours.
CLOCK_TOLERANCE: Final = timedelta(minutes=5)
NAMES: Final[Mapping[PassportState, VerdictName]] = {
    PassportState.IN_FORCE: "in_force",
    PassportState.SUPERSEDED: "superseded",
    PassportState.REVOKED: "revoked",
    PassportState.CEASED: "ceased",
}
# The worst last.
_RANKS: Final = (PassportState.IN_FORCE, PassportState.SUPERSEDED, PassportState.CEASED, PassportState.REVOKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusQuestion:
    """What somebody who checks has: signed documents, and the time. `absence` says why there are none."""

    documents: tuple[bytes, ...] = ()
    now: datetime | None = None
    absence: str = "no status list was given"


NO_QUESTION: Final = StatusQuestion()


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The keys that may have signed, each with the names it goes by; None is any name."""

    names_by_key: Mapping[PublicKey, Collection[str | None]]
    are_pinned: bool

    @classmethod
    def choose(cls, pins: Sequence[Pin], own_key: PublicKey | None, receipt: Receipt) -> "TrustedKeys":
        """The pinned keys; without any, the key that the file itself names."""
        if pins or own_key is None:
            return cls(group_names_by_key([pin for pin in pins if _may_vouch(pin, receipt)]), are_pinned=bool(pins))
        return cls({own_key: {receipt.signing_key_id}}, are_pinned=False)

    def has_signed(self, signature: DocumentSignature) -> bool:
        """Whether one of them signed it, under its name."""
        keys = [key for key, names in self.names_by_key.items() if None in names or signature.key_id in names]
        return any(signature.is_by(key) for key in keys)


def _may_vouch(pin: Pin, receipt: Receipt) -> bool:
    """Whether a key may say what became of a passport: not if it was stolen, or is another tenant's."""
    if not isinstance(pin, PinnedKey):
        return True
    return pin.compromised_since is None and pin.tenant_id in (None, str(receipt.tenant_id))


class StatusSubject(NamedTuple):
    """The passport that is asked about: its receipt, the statement in its file, and the keys that may have signed."""

    receipt: Receipt
    statement: StatusStatement | None
    keys: TrustedKeys


@dataclass(slots=True)
class StatusCheck:
    """The step for one passport, which `open_subject` reads; keeps the verdict beside the sentence."""

    open_subject: Callable[[], StatusSubject]
    question: StatusQuestion
    is_required: bool = False
    verdict: StatusVerdict = NOT_ASKED

    def run(self) -> str:
        """The sentence of the step."""
        judge = StatusJudge(*self.open_subject(), question=self.question)
        self.verdict = judge.judge()
        if self.verdict.name == "revoked":
            raise CheckFailed(self.verdict.says)
        if self.verdict.name == "not_asked" and self.is_required:
            raise CheckFailed(f"{self.verdict.says}; and you require it")
        return self.verdict.says


@dataclass(frozen=True, slots=True)
class StatusJudge:
    """Decides what documents say of one passport."""

    receipt: Receipt
    statement: StatusStatement | None
    keys: TrustedKeys
    question: StatusQuestion

    def judge(self) -> StatusVerdict:
        """The verdict; `CheckFailed` if a document is not one to rely on."""
        statement = self.statement
        if statement is not None and not statement.is_about(self.receipt):  # 1
            raise CheckFailed("the statement of its status is about another passport")
        is_usable = statement is not None and self._is_trusted(statement)
        statements = [statement] if statement is not None and is_usable else []
        lists: list[StatusList] = []
        for document in self.question.documents:
            status_document = read_status_document(document)
            if isinstance(status_document, StatusStatement):
                statements.append(self._require_own_statement(status_document))
            else:
                lists.append(self._require_trusted_list(status_document))
        if not self.question.documents:
            return self._say_not_asked(self.question.absence, statements)
        if not statements:
            why = "the passport does not say which list and index are its own"
            if statement is not None:
                why = f"the key `{statement.signing_key_id}` of the statement in it is not one you gave"
            return self._say_not_asked(why, statements)
        return self._combine(statements, lists)

    def _is_trusted(self, statement: StatusStatement) -> bool:
        return statement.signature is not None and self.keys.has_signed(statement.signature)

    def _require_own_statement(self, statement: StatusStatement) -> StatusStatement:
        if not statement.is_about(self.receipt):  # 2
            raise CheckFailed("the status that was given is about another passport or of another tenant")
        if not self._is_trusted(statement):  # 3
            raise self._refuse_key(statement.signing_key_id)
        return statement

    def _require_trusted_list(self, status_list: StatusList) -> StatusList:
        if status_list.head.tenant_id != self.receipt.tenant_id:  # 2
            raise CheckFailed("the status list that was given is of another tenant")
        if not self.keys.has_signed(status_list.signature):  # 3
            raise self._refuse_key(status_list.head.signing_key_id)
        return status_list

    def _refuse_key(self, key_id: str) -> CheckFailed:
        who = "a key you trust" if self.keys.are_pinned else "the key of this passport"
        return CheckFailed(f"the status names the key `{key_id[:80]}`, and {who} of this name did not sign it")

    def _combine(self, statements: Sequence[StatusStatement], lists: Sequence[StatusList]) -> StatusVerdict:
        place = statements[0].place
        if any(statement.place != place for statement in statements):
            raise CheckFailed("the statements name different places in status lists")
        states = [statement.state for statement in statements if statement.status != "issued"]
        reason = "the list was not given"
        for status_list in lists:
            if status_list.head.url != place.list_url:  # 2
                raise CheckFailed(f"the status of this passport is in another list, {place.list_url}")
            state = status_list.get_state(place.index)
            late = None if state != PassportState.IN_FORCE else self._find_time_fault(status_list)  # 4
            if late is None:
                states.append(state)
            else:
                reason = late
        if not states:
            return self._say_not_asked(reason, statements)
        return _describe(max(states, key=_RANKS.index), statements, lists)  # 5

    def _find_time_fault(self, status_list: StatusList) -> str | None:
        now, head = self.question.now, status_list.head
        if now is None or now > head.valid_until:
            return f"the list was valid until {format_time(head.valid_until)}; get a newer one"
        if head.valid_from - CLOCK_TOLERANCE > now:
            return f"the list is valid from {format_time(head.valid_from)} on, and that is later than now"
        return None

    def _say_not_asked(self, reason: str, statements: Sequence[StatusStatement]) -> StatusVerdict:
        where = f"; it is at {statements[0].place.list_url}, index {statements[0].place.index}" if statements else ""
        return StatusVerdict("not_asked", f"not asked: {reason}{where}")


def read_status_document(data: bytes) -> StatusList | StatusStatement:
    """A list or a statement; `CheckFailed` says why it is neither."""
    try:
        return read_status_list(data) if LIST_VERSION.encode() in data[-400:] else read_statement(data)
    except Invalid as wrong:
        raise CheckFailed(wrong.says) from None


def _describe(
    state: PassportState, statements: Sequence[StatusStatement], lists: Sequence[StatusList]
) -> StatusVerdict:
    name = NAMES[state]
    if state == PassportState.IN_FORCE:
        signed_at = max(status_list.head.valid_from for status_list in lists)
        return StatusVerdict(name, f"in force, as the issuer says at {format_time(signed_at)}")
    details = next((each for each in statements if each.state == state and each.status != "issued"), None)
    if details is None:
        hint = "the list does not say since when"
        return StatusVerdict(name, f"{name}; {hint}" if state != PassportState.REVOKED else f"it is revoked; {hint}")
    return StatusVerdict(name, "".join(_list_words(details)), details.since, details.successor, details.reason)


def _list_words(statement: StatusStatement) -> Iterator[str]:
    words: Mapping[StatementStatus, str] = {"revoked": "it is revoked", "superseded": "superseded", "ceased": "ceased"}
    yield words[statement.status]
    if statement.successor is not None:
        yield f" by {statement.successor}"
    yield f" since {format_time(statement.since)}"
    if statement.reason:
        yield f": {statement.reason}"
