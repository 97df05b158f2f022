// Places that no test reached, in the margin. They move with the text while somebody types.
import { RangeSet, RangeSetBuilder, StateField } from "@codemirror/state";
import { GutterMarker, gutter } from "@codemirror/view";

class UnreachedMarker extends GutterMarker {
  constructor(words) {
    super();
    this.words = words;
  }

  eq(other) {
    return other.words === this.words;
  }

  toDOM() {
    const mark = document.createElement("span");
    mark.className = "cm-unreached";
    mark.textContent = "○";
    mark.title = this.words;
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", this.words);
    return mark;
  }
}

/** `places` are pairs of a line and the words beside it, in the order of the text. */
export function showCoverage(places) {
  const field = StateField.define({
    create(state) {
      const builder = new RangeSetBuilder();
      for (const [line, words] of places) {
        if (line <= state.doc.lines) builder.add(state.doc.line(line).from, state.doc.line(line).from, new UnreachedMarker(words));
      }
      return builder.finish();
    },
    update: (marks, transaction) => (transaction.docChanged ? marks.map(transaction.changes) : marks),
  });
  const margin = gutter({ class: "cm-coverage", markers: (view) => view.state.field(field, false) ?? RangeSet.empty });
  return places.length ? [field, margin] : [];
}
