/** What an agent wrote, with its fenced code in colour. */

import { Text } from "./Text";
import type { Mark } from "./quotes";

const FENCE = /```([\w+-]*)[^\n]*\n([\s\S]*?)(?:```|$)/g;

interface Part {
  start: number;
  end: number;
  code: boolean;
}

export function Answer({ text, marks, active }: { text: string; marks: Mark[]; active: number | null }) {
  return (
    <>
      {parts(text).map((part) => (
        <Text
          text={text.slice(part.start, part.end)}
          code={part.code}
          lines={part.code ? 60 : 24}
          active={active}
          marks={marks
            .filter((mark) => mark.start < part.end && mark.end > part.start)
            .map((mark) => ({
              start: Math.max(mark.start, part.start) - part.start,
              end: Math.min(mark.end, part.end) - part.start,
              criterion: mark.criterion,
            }))}
        />
      ))}
    </>
  );
}

function parts(text: string): Part[] {
  const found: Part[] = [];
  let at = 0;
  const add = (start: number, end: number, code: boolean): void => {
    const body = text.slice(start, end);
    if (body.trim() !== "") {
      found.push({ start: start + (body.length - body.replace(/^\n+/, "").length), end: start + body.trimEnd().length, code });
    }
  };
  for (const match of text.matchAll(FENCE)) {
    const body = match.index + match[0].indexOf("\n") + 1;
    add(at, match.index, false);
    add(body, body + (match[2] ?? "").length, true);
    at = match.index + match[0].length;
  }
  add(at, text.length, false);
  return found;
}
