/** One episode, whole. */

import { useEffect } from "preact/hooks";
import { ActionCard } from "./ActionCard";
import { BlamePanel } from "./BlamePanel";
import { figure, visible } from "./format";
import { useKeys } from "./keys";
import { Lanes } from "./Lanes";
import { episodeHash } from "./route";
import { stage, type Row } from "./rows";
import { SameTask } from "./SameTask";
import { Outcome } from "./Score";
import { Text } from "./Text";
import { useEpisode } from "./useEpisode";

interface Props {
  number: number;
  action: number | null;
  rows: Row[];
  /** The numbers of the episodes of the list, in its order. */
  order: number[];
  agents: string[];
  back: string;
}

export function EpisodeView({ number, action, rows, order, agents, back }: Props) {
  const { episode, problem } = useEpisode(number);
  const place = order.indexOf(number);
  const open = (to: number | undefined): void => {
    if (to !== undefined) {
      location.hash = episodeHash(to);
    }
  };
  const step = (by: number): void => {
    if (episode !== null) {
      const next = action === null ? (by > 0 ? 0 : episode.actions.length - 1) : action + by;
      location.hash = episodeHash(number, Math.min(episode.actions.length - 1, Math.max(0, next)));
    }
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    n: () => open(order[place + 1]),
    p: () => open(order[place - 1]),
    u: () => {
      location.hash = back;
    },
  });
  useEffect(() => {
    if (action === null) {
      scrollTo(0, 0);
    }
  }, [number]);
  if (problem !== "") {
    return <p class="problem">{problem}</p>;
  }
  if (episode === null) {
    return <p class="empty">Loading episode {number} …</p>;
  }
  const { outcome } = episode;
  return (
    <div class="episode" data-episode={episode.number}>
      <nav class="near" aria-label="Near episodes">
        <a href={back}>‹ all episodes</a>
        <span class="grow" />
        {place > 0 && <a href={episodeHash(order[place - 1] ?? number)}>previous</a>}
        {place >= 0 && place < order.length - 1 && <a href={episodeHash(order[place + 1] ?? number)}>next</a>}
      </nav>
      <header class="about">
        <h1>{visible(episode.task.id)}</h1>
        <Outcome success={outcome === null ? null : outcome.success} status={outcome?.status ?? ""} />
        <span class="dim">
          episode {number} · {visible(episode.env)} · {visible(stage({ phase: episode.phase, step: episode.training_step }))}
          {" · "}seed {episode.seed}
          {outcome !== null && ` · outcome ${figure(outcome.score)}`}
          {episode.training_step !== null && (
            <>
              {" · "}
              <a href={`#/training?step=${episode.training_step}`}>curves at this step</a>
            </>
          )}
        </span>
      </header>
      <div class="overview">
        <div class="graph">
          <Lanes episode={episode} agents={agents} selected={action} />
          <details class="taskprompt">
            <summary>the task</summary>
            <Text text={episode.task.prompt} lines={40} />
            {outcome !== null && Object.keys(outcome.metrics).length > 0 && (
              <p class="small dim">
                {Object.entries(outcome.metrics)
                  .map(([name, value]) => `${visible(name)} ${value === null ? "none" : figure(value)}`)
                  .join(" · ")}
              </p>
            )}
          </details>
        </div>
        <div class="aside">
          <BlamePanel episode={episode} />
          <SameTask rows={rows} number={number} />
        </div>
      </div>
      {episode.actions.map((each) => (
        <ActionCard
          key={`${number}-${each.step}`}
          episode={episode}
          action={each}
          agents={agents}
          selected={each.step === action}
        />
      ))}
    </div>
  );
}
