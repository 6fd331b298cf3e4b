/** Hostile text as it is: text nodes, with marks for quotes and colour for code. */

import { useState } from "preact/hooks";
import { visible } from "./format";
import { tokens, type Token } from "./highlight";
import type { Mark } from "./quotes";

interface Props {
  text: string;
  marks?: Mark[] | undefined;
  /** The mark that a reader follows. */
  active?: number | null;
  code?: boolean;
  /** Lines above which the middle is folded. */
  lines?: number;
}

export function Text({ text, marks = [], active = null, code = false, lines = 24 }: Props) {
  const [open, setOpen] = useState(false);
  const cut = fold(text, lines);
  const whole = open || cut === null || marks.some((mark) => mark.criterion === active);
  if (whole) {
    return (
      <pre class={code ? "text code" : "text"}>
        <Pieces text={text} from={0} to={text.length} marks={marks} active={active} code={code} />
        {open && (
          <button type="button" class="fold" onClick={() => setOpen(false)}>
            fold
          </button>
        )}
      </pre>
    );
  }
  return (
    <pre class={code ? "text code" : "text"}>
      <Pieces text={text} from={0} to={cut.head} marks={marks} active={active} code={code} />
      <button type="button" class="fold" onClick={() => setOpen(true)}>
        {cut.hidden} more lines
      </button>
      <Pieces text={text} from={cut.tail} to={text.length} marks={marks} active={active} code={code} />
    </pre>
  );
}

interface PiecesProps extends Required<Omit<Props, "lines" | "marks">> {
  from: number;
  to: number;
  marks: Mark[];
}

function Pieces({ text, from, to, marks, active, code }: PiecesProps) {
  const coloured: Token[] = code ? tokens(text) : [];
  const edges = new Set([from, to]);
  for (const { start, end } of [...coloured, ...marks]) {
    for (const edge of [start, end]) {
      if (edge > from && edge < to) {
        edges.add(edge);
      }
    }
  }
  const cuts = [...edges].sort((a, b) => a - b);
  let next = 0;
  return (
    <>
      {cuts.slice(0, -1).map((start, index) => {
        while (next < coloured.length && (coloured[next]?.end ?? 0) <= start) {
          next += 1;
        }
        const token = coloured[next];
        const kind = token !== undefined && token.start <= start ? token.kind : null;
        const piece = visible(text.slice(start, cuts[index + 1]));
        const mark = marks.find((each) => each.start <= start && start < each.end);
        if (mark !== undefined) {
          return (
            <mark data-criterion={mark.criterion} class={mark.criterion === active ? "active" : ""}>
              {piece}
            </mark>
          );
        }
        return kind === null ? piece : <span class={kind}>{piece}</span>;
      })}
    </>
  );
}

function fold(text: string, lines: number): { head: number; tail: number; hidden: number } | null {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) {
    starts.push(at + 1);
  }
  if (starts.length <= lines + 4) {
    return null;
  }
  const kept = Math.floor(lines / 2);
  return {
    head: starts[kept] ?? 0,
    tail: starts[starts.length - kept] ?? text.length,
    hidden: starts.length - 2 * kept,
  };
}
