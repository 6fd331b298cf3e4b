/** A run's curves, the marked step, and where the time went. */

import { useContext, useEffect, useState } from "preact/hooks";
import { Curve, type Line } from "./Curve";
import { percent, seconds } from "./format";
import { listHash } from "./route";
import type { About, Metrics } from "./source";
import { SourceContext } from "./useEpisode";

/** Title -> metrics of one chart: their names, or how they begin (with a slash at the end). */
const CHARTS: [string, string[]][] = [
  ["success and outcome", ["success", "score"]],
  ["reward by agent", ["reward/"]],
  ["coach's score by stratum", ["coach/score/"]],
  ["corrected score", ["score_corrected/"]],
  ["coach's bias: offset by family", ["bias/offset/"]],
  ["coach's bias: slope by family", ["bias/slope/"]],
  ["drift of frozen actions", ["anchors/"]],
  ["masked actions", ["masked"]],
  ["return by policy", ["return_mean/"]],
  ["loss", ["loss/"]],
  ["entropy", ["entropy/"]],
  ["KL of a step", ["kl/"]],
  ["gradient norm", ["grad_norm/"]],
  ["tokens per action", ["length/"]],
];
const TIMES: [string, string][] = [
  ["time/generate", "generation"],
  ["time/wait", "sandbox and coach"],
  ["time/learn", "learning"],
  ["time/sync", "new weights"],
];
const EVERY_MS = 3000;

interface Props {
  about: About;
  step: number | null;
}

export function TrainingView({ about, step }: Props) {
  const source = useContext(SourceContext);
  const [metrics, setMetrics] = useState<Metrics | null>(null);
  const [problem, setProblem] = useState("");
  const [more, setMore] = useState("");
  useEffect(() => {
    const load = (): void => {
      source.metrics().then(setMetrics, (error: Error) => setProblem(error.message));
    };
    load();
    if (!source.live) {
      return undefined;
    }
    const timer = setInterval(load, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  if (problem !== "") {
    return <p class="problem">{problem}</p>;
  }
  if (metrics === null) {
    return <p class="empty">Loading …</p>;
  }
  if (metrics.length === 0) {
    return <p class="empty">No curves: {about.path} is no run with a metrics.jsonl.</p>;
  }
  const names = [...new Set(metrics.flatMap((row) => Object.keys(row)))].filter((name) => name !== "step");
  const mark = (to: number): void => {
    location.hash = `#/training?step=${to}`;
  };
  const charts = [...CHARTS, ...(more === "" ? [] : [[more, [more]] as [string, string[]]])];
  return (
    <div class="training">
      <div class="trainhead">
        <h2>{metrics.length} training steps</h2>
        {step !== null && (
          <p>
            step <b>{step}</b> is marked: <a href={listHash("episodes", `step=${step}`, "order")}>its episodes</a>
          </p>
        )}
        <span class="grow" />
        <label>
          another metric
          <select value={more} onChange={(event) => setMore(event.currentTarget.value)}>
            <option value="">none</option>
            {[...names].sort().map((name) => (
              <option value={name}>{name}</option>
            ))}
          </select>
        </label>
      </div>
      <div class="panels curves">
        {charts.map(([title, wanted]) => {
          const lines = linesOf(metrics, names, wanted);
          return lines.length > 0 && <Curve title={title} lines={lines} marked={step} onMark={mark} />;
        })}
      </div>
      <Times metrics={metrics} phases={about.phases} />
    </div>
  );
}

function linesOf(metrics: Metrics, names: string[], wanted: string[]): Line[] {
  return names
    .filter((name) => wanted.some((each) => (each.endsWith("/") ? name.startsWith(each) : name === each)))
    .map((name) => {
      const prefix = wanted.find((each) => each.endsWith("/") && name.startsWith(each)) ?? "";
      const points = metrics.flatMap((row): [number, number][] => {
        const value = row[name];
        return typeof value === "number" ? [[row.step ?? 0, value]] : [];
      });
      return { name: name.slice(prefix.length), points };
    })
    .filter((line) => line.points.length > 0);
}

function Times({ metrics, phases }: { metrics: Metrics; phases: Record<string, number> }) {
  const sum = (name: string): number => metrics.reduce((total, row) => total + (row[name] ?? 0), 0);
  const spent: [string, number][] = TIMES.map(([name, title]) => [title, sum(name)]);
  const rest = sum("time/step") - spent.reduce((total, [, value]) => total + value, 0);
  spent.push(["the rest", Math.max(0, rest)]);
  return (
    <>
      <h2>Wall time</h2>
      <div class="times">
        <Bar title="of the training steps" parts={spent.filter(([, value]) => value > 0)} />
        <Bar title="of the run, by phase" parts={Object.entries(phases).filter(([, value]) => value > 0)} />
      </div>
    </>
  );
}

function Bar({ title, parts }: { title: string; parts: [string, number][] }) {
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  if (total === 0) {
    return null;
  }
  return (
    <figure class="timebar">
      <figcaption>
        <b>{title}</b> <span class="dim">{seconds(total)}</span>
      </figcaption>
      <div class="stack" aria-hidden="true">
        {parts.map(([name, value], index) => (
          <i class={`back${index % 7}`} style={{ flexGrow: value }} title={name} />
        ))}
      </div>
      <ul class="keys">
        {parts.map(([name, value], index) => (
          <li>
            <i class={`dot lane${index % 7}`} />
            {name} <b>{seconds(value)}</b> <span class="dim">{percent(value / total)}</span>
          </li>
        ))}
      </ul>
    </figure>
  );
}
