/** What a check says when it does not hold, or cannot run. Anything else that is thrown is a bug. */
/** A check found something wrong. */
export class CheckFailed extends Error {
}
/** A check cannot run, because what it needs is missing, unreadable or unknown to this browser. */
export class NotChecked extends Error {
}
