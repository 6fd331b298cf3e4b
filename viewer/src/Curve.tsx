/** A small chart over training steps. A click marks a step. */

import { figure } from "./format";

export interface Line {
  name: string;
  /** (step, value) of every step that has one. */
  points: [number, number][];
}

const WIDTH = 300;
const HEIGHT = 120;
const LEFT = 38;
const BOTTOM = 16;

interface Props {
  title: string;
  lines: Line[];
  marked: number | null;
  onMark(step: number): void;
}

export function Curve({ title, lines, marked, onMark }: Props) {
  const all = lines.flatMap((line) => line.points);
  const steps = all.map(([step]) => step);
  const values = all.map(([, value]) => value);
  const [first, last] = [steps.reduce((a, b) => Math.min(a, b)), steps.reduce((a, b) => Math.max(a, b))];
  const [low, high] = range(values);
  const x = (step: number): number => LEFT + ((step - first) / Math.max(1, last - first)) * (WIDTH - LEFT - 6);
  const y = (value: number): number => 6 + ((high - value) / (high - low)) * (HEIGHT - BOTTOM - 12);
  const mark = (event: MouseEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * WIDTH;
    onMark(Math.round(Math.min(1, Math.max(0, (at - LEFT) / (WIDTH - LEFT - 6))) * (last - first) + first));
  };
  return (
    <figure class="curve">
      <figcaption>
        <b>{title}</b>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`${title} over training steps ${first} to ${last}: ${lines
          .map((line) => `${line.name} ends at ${figure(line.points.at(-1)?.[1] ?? 0)}`)
          .join(", ")}`}
        onClick={mark}
      >
        {[low, (low + high) / 2, high].map((value) => (
          <>
            <line class="rail" x1={LEFT} x2={WIDTH - 6} y1={y(value)} y2={y(value)} />
            <text x={LEFT - 4} y={y(value) + 3} text-anchor="end">
              {figure(value)}
            </text>
          </>
        ))}
        {marked !== null && marked >= first && marked <= last && (
          <line class="marked" x1={x(marked)} x2={x(marked)} y1={2} y2={HEIGHT - BOTTOM} />
        )}
        {lines.map((line, index) => (
          <>
            <polyline class={`line stroke${index % 7}`} points={line.points.map(([s, v]) => `${x(s)},${y(v)}`).join(" ")} />
            {line.points.length === 1 && (
              <circle class={`fill${index % 7}`} cx={x(line.points[0]?.[0] ?? 0)} cy={y(line.points[0]?.[1] ?? 0)} r={2.5} />
            )}
          </>
        ))}
        <text x={LEFT} y={HEIGHT - 3}>
          {first}
        </text>
        <text x={WIDTH - 6} y={HEIGHT - 3} text-anchor="end">
          step {last}
        </text>
      </svg>
      <ul class="keys">
        {lines.map((line, index) => (
          <li>
            <i class={`dot lane${index % 7}`} />
            {line.name}{" "}
            <b>{valueAt(line, marked)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

/** The value at the marked step, a dash if it has none; without a mark the last one. */
function valueAt(line: Line, marked: number | null): string {
  const point = marked === null ? line.points.at(-1) : line.points.find(([step]) => step === marked);
  return point === undefined ? "–" : figure(point[1]);
}

/** Two round numbers around all of `values`. */
function range(values: number[]): [number, number] {
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  const size = (high - low || Math.abs(high) || 1) / 2;
  const power = 10 ** Math.floor(Math.log10(size));
  const unit = ([1, 2, 2.5, 5, 10].find((each) => each * power >= size) ?? 10) * power;
  const start = Math.floor(low / unit) * unit;
  return [start, Math.max(start + 2 * unit, Math.ceil(high / unit) * unit)];
}
