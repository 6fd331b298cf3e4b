/** The grid of episodes and actions. Only the rows in sight exist as elements. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { points } from "./format";
import { useKeys } from "./keys";
import { agentIndex, groups, type Group } from "./layout";
import type { Query } from "./query";
import { episodeHash } from "./route";
import { stage, type Cell, type Row } from "./rows";
import { Outcome, scoreClass, scoreSign } from "./Score";

const ROW = { wide: 26, narrow: 58 };
const SPARE = 12;

interface Props {
  rows: Row[];
  query: Query;
  agents: string[];
  /** The episode that was open last. */
  current: number | null;
}

export function EpisodeList({ rows, query, agents, current }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const narrow = useMatch("(max-width: 720px)");
  const height = narrow ? ROW.narrow : ROW.wide;
  const [top, setTop] = useState(0);
  const [seen, setSeen] = useState(800);
  const [selected, setSelected] = useState(() => Math.max(0, rows.findIndex((row) => row.number === current)));
  const layout = useMemo(() => groups(rows), [rows]);
  const first = Math.max(0, Math.floor(top / height) - SPARE);
  const last = Math.min(rows.length, Math.ceil((top + seen) / height) + SPARE);

  useEffect(() => {
    const element = box.current;
    if (element === null) {
      return;
    }
    const measure = new ResizeObserver(() => setSeen(element.clientHeight));
    measure.observe(element);
    if (current !== null) {
      element.scrollTop = Math.max(0, selected * height - element.clientHeight / 2);
    }
    return () => measure.disconnect();
  }, []);

  const move = (by: number): void => {
    const next = Math.min(rows.length - 1, Math.max(0, selected + by));
    setSelected(next);
    const element = box.current;
    if (element !== null) {
      const low = next * height - element.clientHeight + 2 * height;
      element.scrollTop = Math.min(Math.max(element.scrollTop, low), next * height);
    }
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => {
      const row = rows[selected];
      if (row !== undefined) {
        location.hash = episodeHash(row.number);
      }
    },
  });

  if (rows.length === 0) {
    return <p class="empty">No episode matches this filter.</p>;
  }
  return (
    <div class="list">
      <div class="row head" aria-hidden="true">
        <span>#</span>
        <span>task</span>
        <span>stage</span>
        <span>seed</span>
        <span>outcome</span>
        <span class="number">mean</span>
        <span class="cells">{layout === null ? "actions in time" : layout.map((group) => <GroupHead group={group} />)}</span>
      </div>
      <div
        class="scroll"
        ref={box}
        tabIndex={0}
        role="region"
        aria-label="Episodes"
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <div style={{ height: `${rows.length * height}px`, position: "relative" }}>
          {rows.slice(first, last).map((row, index) => (
            <a
              key={row.number}
              class={first + index === selected ? "row selected" : "row"}
              href={episodeHash(row.number)}
              style={{ top: `${(first + index) * height}px`, height: `${height}px` }}
            >
              <span class="dim">{row.number}</span>
              <span class="task">
                <b>{row.task}</b> <span class="dim">{row.topic === row.task ? "" : row.topic}</span>
              </span>
              <span class="stage">{stage(row)}</span>
              <span class="seed dim" title={row.seed}>
                {row.seed}
              </span>
              <span>
                <Outcome success={row.success} status={row.status} />
              </span>
              <span class="number">{points(row.mean)}</span>
              <span class="cells">
                {layout === null
                  ? row.cells.map((cell) => <Square cell={cell} query={query} lane={agentIndex(agents, cell.agent)} />)
                  : layout.map((group) => (
                      <GroupCells group={group} cells={row.cells.filter((c) => c.agent === group.agent)} query={query} />
                    ))}
              </span>
            </a>
          ))}
        </div>
      </div>
    </div>
  );
}

function GroupHead({ group }: { group: Group }) {
  return (
    <span class="group" style={{ "--width": group.width }} title={group.agent}>
      {group.agent}
    </span>
  );
}

function GroupCells({ group, cells, query }: { group: Group; cells: Cell[]; query: Query }) {
  return (
    <span class="group" style={{ "--width": group.width }}>
      {cells.map((cell) => (
        <Square cell={cell} query={query} lane={null} />
      ))}
    </span>
  );
}

function Square({ cell, query, lane }: { cell: Cell; query: Query; lane: number | null }) {
  const score = cell.verdict === "ok" ? points(cell.score) : `no score (${cell.verdict})`;
  const ran = cell.tool === "" ? "ran nothing" : `ran: ${cell.tool}`;
  const classes = [scoreClass(cell.verdict, cell.score), "square"];
  if (query.marks(cell)) {
    classes.push("hit");
  }
  if (cell.tool !== "" && cell.tool !== "ok") {
    classes.push("broke");
  }
  if (lane !== null) {
    classes.push(`lane lane${lane}`);
  }
  return (
    <i class={classes.join(" ")} title={`${cell.agent}, turn ${cell.turn}: ${score}; ${ran}`}>
      {scoreSign(cell.verdict, cell.score)}
    </i>
  );
}

function useMatch(media: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(media).matches);
  useEffect(() => {
    const list = matchMedia(media);
    const changed = (): void => setMatches(list.matches);
    list.addEventListener("change", changed);
    return () => list.removeEventListener("change", changed);
  }, []);
  return matches;
}
