/** Two episodes next to each other: what each agent wrote, and how it was judged. */

import { asked } from "./Calls";
import { ownLines } from "./diff";
import type { Action, Episode } from "./episode";
import { percent, signed, visible } from "./format";
import { useKeys } from "./keys";
import { agentIndex } from "./layout";
import { compareHash, episodeHash } from "./route";
import { stage } from "./rows";
import { Outcome, Score } from "./Score";
import { useEpisode } from "./useEpisode";

const MOST_LINES = 80;
const MOST_OUTPUT = 1200;

interface Pair {
  key: string;
  agent: string;
  sides: [Action | null, Action | null];
}

export function CompareView({ left, right, agents, back }: { left: number; right: number; agents: string[]; back: string }) {
  const sides = [useEpisode(left), useEpisode(right)];
  useKeys({
    u: () => {
      location.hash = back;
    },
  });
  const problem = sides.find((side) => side.problem !== "")?.problem;
  if (problem !== undefined) {
    return <p class="problem">{problem}</p>;
  }
  const [a, b] = sides.map((side) => side.episode);
  if (a === null || a === undefined || b === null || b === undefined) {
    return <p class="empty">Loading episodes {left} and {right} …</p>;
  }
  return (
    <div class="compare">
      <nav class="near" aria-label="Near episodes">
        <a href={back}>‹ all episodes</a>
        <span class="grow" />
        <a href={compareHash(right, left)}>swap</a>
      </nav>
      <h1>{a.task.id === b.task.id ? visible(a.task.id) : `${visible(a.task.id)} and ${visible(b.task.id)}`}</h1>
      <div class="two">
        <Head episode={a} />
        <Head episode={b} />
      </div>
      {pairs(a, b).map((pair) => (
        <PairRow key={pair.key} pair={pair} agents={agents} episodes={[a, b]} />
      ))}
    </div>
  );
}

function Head({ episode }: { episode: Episode }) {
  const { outcome } = episode;
  return (
    <div class="side">
      <a href={episodeHash(episode.number)}>
        <b>{visible(stage({ phase: episode.phase, step: episode.training_step }))}</b>, episode {episode.number}
      </a>{" "}
      <Outcome success={outcome === null ? null : outcome.success} status={outcome?.status ?? ""} />
      <p class="dim">
        seed {episode.seed}
        {outcome !== null && ` · ${visible(outcome.reason)}`}
      </p>
    </div>
  );
}

function PairRow({ pair, agents, episodes }: { pair: Pair; agents: string[]; episodes: [Episode, Episode] }) {
  const [one, two] = pair.sides;
  const own = ownLines(one?.answer ?? "", two?.answer ?? "");
  const scores = pair.sides.map((side) => (side?.verdict.status === "ok" ? side.verdict.score : null));
  const [before, after] = scores;
  return (
    <section class="pair" aria-label={`${pair.agent}, action ${pair.key}`}>
      <h2>
        <i class={`dot lane${agentIndex(agents, pair.agent)}`} />
        {visible(pair.key)}
        {typeof before === "number" && typeof after === "number" && (
          <span class={after < before ? "down" : after > before ? "up" : "dim"}>{signed(after - before)} points</span>
        )}
      </h2>
      <Deltas one={one} two={two} />
      <div class="two">
        <SidePane action={one} own={own[0]} other={two !== null} episode={episodes[0]} kind="removed" />
        <SidePane action={two} own={own[1]} other={one !== null} episode={episodes[1]} kind="added" />
      </div>
    </section>
  );
}

/** Criteria whose scores differ. */
function Deltas({ one, two }: { one: Action | null; two: Action | null }) {
  const names = [...new Set([one, two].flatMap((side) => side?.verdict.criteria.map((each) => each.name) ?? []))];
  const of = (side: Action | null, name: string) => side?.verdict.criteria.find((each) => each.name === name);
  const changed = names.filter((name) => of(one, name)?.score !== of(two, name)?.score);
  if (changed.length === 0) {
    return null;
  }
  return (
    <p class="deltas">
      {changed.map((name) => {
        const [was, is] = [of(one, name), of(two, name)];
        return (
          <span>
            {visible(name)} {was === undefined ? "–" : percent(was.score)} → {is === undefined ? "–" : percent(is.score)}
          </span>
        );
      })}
    </p>
  );
}

interface SideProps {
  action: Action | null;
  own: boolean[];
  other: boolean;
  episode: Episode;
  kind: "added" | "removed";
}

function SidePane({ action, own, other, episode, kind }: SideProps) {
  if (action === null) {
    return <div class="side dim">It did not act here.</div>;
  }
  const lines = action.answer.split("\n");
  return (
    <div class="side">
      <p>
        <Score status={action.verdict.status} score={action.verdict.score} />{" "}
        <a href={episodeHash(episode.number, action.step)}>action {action.step}</a>{" "}
        {action.tool !== null && (
          <span class={action.tool.status === "ok" ? "tag" : "tag bad"}>code: {visible(action.tool.status)}</span>
        )}
      </p>
      <pre class="text code">
        {lines.slice(0, MOST_LINES).map((line, index) => (
          <span class={other && own[index] ? `line ${kind}` : "line"}>{visible(line)}{"\n"}</span>
        ))}
        {lines.length > MOST_LINES && `… ${lines.length - MOST_LINES} more lines`}
      </pre>
      {action.tool !== null && (action.tool.stdout !== "" || action.tool.stderr !== "") && (
        <pre class="text output">{visible((action.tool.stdout + action.tool.stderr).slice(-MOST_OUTPUT))}</pre>
      )}
      {action.calls.map((call) => (
        <pre class="text output">
          {visible(`${call.tool} ${call.status}: ${asked(call)}\n${call.text}`.slice(0, MOST_OUTPUT))}
        </pre>
      ))}
      {action.verdict.reasoning !== "" && <p class="small">{visible(action.verdict.reasoning)}</p>}
    </div>
  );
}

/** Actions side by side: each agent's first, second and so on. */
function pairs(a: Episode, b: Episode): Pair[] {
  const found = new Map<string, Pair>();
  [a, b].forEach((episode, side) => {
    for (const action of episode.actions) {
      const key = `${action.agent}, turn ${action.turn}`;
      const pair: Pair = found.get(key) ?? { key, agent: action.agent, sides: [null, null] };
      pair.sides[side] = action;
      found.set(key, pair);
    }
  });
  const place = (pair: Pair): number => Math.max(...pair.sides.map((side) => side?.step ?? -1));
  return [...found.values()].sort((one, two) => place(one) - place(two));
}
