/** Scores by stratum and training step, and how strict the coach is in each. */

import { points, percent } from "./format";
import { listHash } from "./route";
import { mean, stage, type Cell, type Row } from "./rows";

const MOST_STAGES = 24;
const CELL = 8;

interface Scored {
  cell: Cell;
  row: Row;
}

export function StrataView({ rows }: { rows: Row[] }) {
  const strata = new Map<string, Scored[]>();
  for (const row of rows) {
    for (const cell of row.cells) {
      const found = strata.get(cell.stratum);
      if (found === undefined) {
        strata.set(cell.stratum, [{ cell, row }]);
      } else {
        found.push({ cell, row });
      }
    }
  }
  const stages = stagesOf(rows);
  if (rows.length === 0) {
    return <p class="empty">No episode matches this filter.</p>;
  }
  return (
    <div class="strata">
      <h2>Scores by stratum</h2>
      <p class="dim">
        A stratum is task family, role and turn. Across: {stages.length === 1 ? "all episodes" : "the stages of the run"}.
        Upwards: scores from 0 to 10; the stronger the colour, the more actions.
        {stages.length > 1 && " The line is the mean."} Each panel opens its episodes.
      </p>
      <div class="panels">
        {[...strata].map(([stratum, found]) => (
          <Panel stratum={stratum} found={found} stages={stages} />
        ))}
      </div>
      <h2>How strict is the coach?</h2>
      <p class="dim">
        Mean scores of actions in episodes that succeeded and in those that failed. Where both are the same, the score
        says nothing about the outcome.
      </p>
      <div class="wide" tabIndex={0} role="region" aria-label="Strictness by stratum">
        <table>
          <thead>
            <tr>
              <th>stratum</th>
              <th class="number">actions</th>
              <th class="number">scored</th>
              <th class="number">mean</th>
              <th class="number">in successes</th>
              <th class="number">in failures</th>
              <th class="number">difference</th>
            </tr>
          </thead>
          <tbody>
            {[...strata].map(([stratum, found]) => (
              <Strictness stratum={stratum} found={found} />
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function Strictness({ stratum, found }: { stratum: string; found: Scored[] }) {
  const scored = found.filter(({ cell }) => cell.verdict === "ok" && cell.score !== null);
  const of = (success: boolean): number | null =>
    mean(scored.filter(({ row }) => row.success === success).map(({ cell }) => cell.score));
  const [won, lost] = [of(true), of(false)];
  return (
    <tr>
      <td>
        <a href={listHash("episodes", `stratum=${stratum}`, "worst")}>{stratum}</a>
      </td>
      <td class="number">{found.length.toLocaleString("en")}</td>
      <td class="number">{percent(scored.length / found.length)}</td>
      <td class="number">{points(mean(scored.map(({ cell }) => cell.score)))}</td>
      <td class="number">{points(won)}</td>
      <td class="number">{points(lost)}</td>
      <td class="number">{won === null || lost === null ? "–" : points(won - lost)}</td>
    </tr>
  );
}

function Panel({ stratum, found, stages }: { stratum: string; found: Scored[]; stages: string[][] }) {
  const place = new Map(stages.flatMap((names, index) => names.map((name) => [name, index] as const)));
  const counts = stages.map(() => new Array<number>(11).fill(0));
  const scores = stages.map(() => [] as number[]);
  for (const { cell, row } of found) {
    const at = place.get(stage(row));
    if (at !== undefined && cell.verdict === "ok" && cell.score !== null) {
      const bin = Math.round(Math.min(10, Math.max(0, cell.score)));
      const column = counts[at];
      if (column !== undefined) {
        column[bin] = (column[bin] ?? 0) + 1;
      }
      scores[at]?.push(cell.score);
    }
  }
  const width = 176 / stages.length;
  const height = 11 * CELL;
  const means = scores.map((values) => mean(values));
  const line = means
    .map((value, index) => (value === null ? null : `${(index + 0.5) * width},${height - (value + 0.5) * CELL}`))
    .filter((point) => point !== null)
    .join(" ");
  return (
    <a class="panel" href={listHash("episodes", `stratum=${stratum}`, "worst")}>
      <b>{stratum}</b>
      <svg viewBox={`0 0 176 ${height}`} aria-hidden="true" preserveAspectRatio="none">
        {counts.flatMap((column, index) => {
          const most = Math.max(1, ...column);
          return column.map((count, bin) =>
            count === 0 ? null : (
              <rect
                class="heat"
                x={index * width}
                y={height - (bin + 1) * CELL}
                width={Math.max(1, width - 1)}
                height={CELL - 1}
                style={{ opacity: 0.15 + (0.85 * count) / most }}
              />
            ),
          );
        })}
        <polyline class="mean" points={line} />
      </svg>
      <span class="dim ends">
        <span>{stages[0]?.[0]}</span>
        <span>{stages.length > 1 && stages.at(-1)?.at(-1)}</span>
      </span>
      <span class="dim">
        {found.length.toLocaleString("en")} actions, mean {points(mean(scores.flat()))}
      </span>
    </a>
  );
}

/** The stages in the order of the run; neighbours share a column if there are many. */
function stagesOf(rows: Row[]): string[][] {
  const first = new Map<string, Row>();
  for (const row of rows) {
    if (!first.has(stage(row))) {
      first.set(stage(row), row);
    }
  }
  const order = ["calibration", "before", "", "after"];
  const rank = (row: Row): number => (order.includes(row.phase) ? order.indexOf(row.phase) : 2);
  const names = [...first]
    .sort(([, a], [, b]) => rank(a) - rank(b) || (a.step ?? 0) - (b.step ?? 0))
    .map(([name]) => name);
  const share = Math.ceil(names.length / MOST_STAGES);
  return Array.from({ length: Math.ceil(names.length / share) }, (_, index) =>
    names.slice(index * share, (index + 1) * share),
  );
}
