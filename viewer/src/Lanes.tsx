/** An episode as a graph in time: one lane per agent, threads of files, and the way back from a failure. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ran, type Action, type Episode } from "./episode";
import { visible } from "./format";
import { agentIndex } from "./layout";
import { episodeHash } from "./route";
import { scoreClass, scoreSign } from "./Score";

const [NARROWEST, WIDEST] = [44, 150];
const LANE = 46;
const TOP = 26;
const NODE = 26;
/** More threads than this have their files' names as a tooltip alone. */
const MOST_NAMED = 6;

interface Props {
  episode: Episode;
  agents: string[];
  selected: number | null;
}

export function Lanes({ episode, agents, selected }: Props) {
  const lanes = episode.team.map(([name]) => name);
  const columns = 1 + Math.max(0, ...episode.actions.map((action) => action.column));
  const time = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  useEffect(() => {
    const measure = new ResizeObserver(([entry]) => setRoom(entry?.contentRect.width ?? 0));
    if (time.current !== null) {
      measure.observe(time.current);
    }
    return () => measure.disconnect();
  }, []);
  const step = Math.min(WIDEST, Math.max(NARROWEST, Math.floor(room / columns)));
  const named = episode.threads.length <= MOST_NAMED;
  const width = Math.max(columns * step, room);
  const height = TOP + lanes.length * LANE;
  const x = (action: Action): number => (action.column + 0.5) * step;
  const y = (action: Action): number => TOP + (lanes.indexOf(action.agent) + 0.5) * LANE;
  const at = (index: number): Action | undefined => episode.actions[index];
  const walk = episode.blame.found?.failed ? episode.blame.found.walk : [];
  const guilty = episode.blame.found?.failed ? episode.blame.found.fractions : [];
  return (
    <figure class="lanes" aria-label="Actions in time, one lane per agent">
      <ol class="names" aria-hidden="true" style={{ paddingTop: `${TOP}px` }}>
        {episode.team.map(([name, title]) => (
          <li style={{ height: `${LANE}px` }} title={title}>
            <i class={`dot lane${agentIndex(agents, name)}`} />
            {name}
          </li>
        ))}
      </ol>
      <div class="time" ref={time} tabIndex={0} role="group" aria-label="Actions in time">
        <div class="field" style={{ width: `${width}px`, height: `${height}px` }}>
          <svg width={width} height={height} aria-hidden="true">
            {lanes.map((_, index) => (
              <line class="rail" x1={0} x2={width} y1={TOP + (index + 0.5) * LANE} y2={TOP + (index + 0.5) * LANE} />
            ))}
            {episode.threads.flatMap((thread) =>
              thread.readers.map((reader) => {
                const [from, to] = [at(thread.writer), at(reader)];
                return from !== undefined && to !== undefined && from.agent !== to.agent ? (
                  <path class="thread" d={curve(x(from) + NODE / 2, y(from), x(to) - NODE / 2, y(to))}>
                    <title>{visible(thread.path)}</title>
                  </path>
                ) : null;
              }),
            )}
            {walk.slice(1).map((link, index) => {
              const [from, to] = [at(walk[index]?.action ?? -1), at(link.action)];
              return from !== undefined && to !== undefined && from !== to ? (
                <path class="back" d={arc(x(from), y(from) - NODE / 2, x(to), y(to) - NODE / 2)} />
              ) : null;
            })}
          </svg>
          {episode.actions.map((action) => {
            const { status, score } = action.verdict;
            const how = ran(action);
            const broke = how !== "" && how !== "ok";
            const fraction = guilty[action.step] ?? 0;
            const classes = [scoreClass(status, score), "node"];
            if (action.step === selected) {
              classes.push("selected");
            }
            if (fraction > 0) {
              classes.push("guilty");
            }
            if (broke) {
              classes.push("broke");
            }
            return (
              <a
                class={classes.join(" ")}
                href={episodeHash(episode.number, action.step)}
                style={{ left: `${x(action) - NODE / 2}px`, top: `${y(action) - NODE / 2}px` }}
                aria-label={`Action ${action.step} of ${action.agent}, ${score === null ? `no score (${status})` : `score ${score.toFixed(1)}`}${broke ? `, ran: ${how}` : ""}${fraction > 0 ? ", blamed" : ""}`}
              >
                {scoreSign(status, score)}
              </a>
            );
          })}
          {named &&
            written(episode).map(([writer, paths]) => {
              const from = at(writer);
              return (
                from !== undefined && (
                  <span class="handed" title={paths} style={{ left: `${x(from)}px`, top: `${y(from) + NODE / 2}px`, maxWidth: `${step - 8}px` }}>
                    {paths}
                  </span>
                )
              );
            })}
          {numbers(episode.actions).map(([column, name]) => (
            <span class="tick" aria-hidden="true" style={{ left: `${(column + 0.5) * step}px` }}>
              {name}
            </span>
          ))}
        </div>
      </div>
    </figure>
  );
}

/** Action -> the files in its threads to other agents. */
function written(episode: Episode): [number, string][] {
  const found = new Map<number, string[]>();
  for (const { path, writer, readers } of episode.threads) {
    if (readers.some((reader) => episode.actions[reader]?.agent !== episode.actions[writer]?.agent)) {
      found.set(writer, [...(found.get(writer) ?? []), visible(path)]);
    }
  }
  return [...found].map(([writer, paths]) => [writer, paths.join(", ")]);
}

/** Column -> the numbers of the actions in it. */
function numbers(actions: Action[]): [number, string][] {
  const found = new Map<number, number[]>();
  for (const action of actions) {
    found.set(action.column, [...(found.get(action.column) ?? []), action.step]);
  }
  return [...found].map(([column, steps]) => [column, steps.join(" · ")]);
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const middle = (x1 + x2) / 2;
  return `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
}

function arc(x1: number, y1: number, x2: number, y2: number): string {
  const top = Math.max(4, Math.min(y1, y2) - 26);
  return `M${x1},${y1} C${x1},${top} ${x2},${top} ${x2},${y2}`;
}
