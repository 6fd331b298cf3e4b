/** Where a coach's quotes stand in the evidence. */

import type { Action } from "./episode";

export interface Mark {
  start: number;
  end: number;
  /** The number of the criterion whose quote this is. */
  criterion: number;
}

export type Place = "answer" | "thinking" | "stdout" | "stderr" | `call ${number}` | `message ${number}`;

/** Place in the evidence -> its marks. */
export type Marks = Map<Place, Mark[]>;

/** The start and end of `quote` in `text`, where any white space is like any other; null: it is not there. */
export function find(quote: string, text: string): [number, number] | null {
  const words = quote.trim().split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) {
    return null;
  }
  const exact = text.indexOf(quote);
  if (exact >= 0) {
    return [exact, exact + quote.length];
  }
  const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
  const match = new RegExp(pattern).exec(text);
  return match === null ? null : [match.index, match.index + match[0].length];
}

/** Every quote of the action's verdict, marked where it first stands. */
export function marksOf(action: Action, texts: string[]): Marks {
  const marks: Marks = new Map();
  action.verdict.criteria.forEach((criterion, index) => {
    for (const [place, text] of evidence(action, texts)) {
      const found = find(criterion.quote, text);
      if (found !== null) {
        const mark = { start: found[0], end: found[1], criterion: index };
        marks.set(place, [...(marks.get(place) ?? []), mark]);
        return;
      }
    }
  });
  return marks;
}

export function isMarked(marks: Marks, criterion: number): boolean {
  return [...marks.values()].some((found) => found.some((mark) => mark.criterion === criterion));
}

function* evidence(action: Action, texts: string[]): Generator<[Place, string]> {
  yield ["answer", action.answer];
  yield ["stdout", action.tool?.stdout ?? ""];
  yield ["stderr", action.tool?.stderr ?? ""];
  for (const [index, call] of action.calls.entries()) {
    yield [`call ${index}`, call.text];
  }
  yield ["thinking", action.thinking];
  for (let index = action.messages.length - 1; index >= 0; index--) {
    yield [`message ${index}`, texts[action.messages[index]?.[1] ?? -1] ?? ""];
  }
}
