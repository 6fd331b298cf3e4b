/** Episodes as the list knows them; `mappa_env/viewer/rows.py` writes them. */

export interface Cell {
  agent: string;
  turn: number;
  segment: number;
  verdict: string;
  score: number | null;
  reward: number;
  valid: boolean;
  tool: string;
  stratum: string;
  returned: number | null;
  advantage: number | null;
}

export interface Row {
  number: number;
  file: string;
  key: string;
  env: string;
  task: string;
  topic: string;
  family: string;
  seed: string;
  success: boolean | null;
  score: number | null;
  status: string;
  phase: string;
  step: number | null;
  cells: Cell[];
  /** Mean score of the scored actions; null without one. */
  mean: number | null;
}

type RawCell = [
  number, number, number, number, number | null, number, boolean, number, number, number | null, number | null,
];
type RawRow = [
  number, number, string, number, number, number, number, string, boolean | null, number | null, number, number,
  number | null, RawCell[],
];

export interface Changes {
  revision: number;
  names: string[];
  rows: RawRow[];
}

export function decode(changes: Changes): Row[] {
  const name = (place: number): string => changes.names[place] ?? "";
  return changes.rows.map((raw) => {
    const cells = raw[13].map(
      (c): Cell => ({
        agent: name(c[0]), turn: c[1], segment: c[2], verdict: name(c[3]), score: c[4], reward: c[5],
        valid: c[6], tool: name(c[7]), stratum: name(c[8]), returned: c[9], advantage: c[10],
      }),
    );
    return {
      number: raw[0], file: name(raw[1]), key: raw[2], env: name(raw[3]), task: name(raw[4]), topic: name(raw[5]),
      family: name(raw[6]), seed: raw[7], success: raw[8], score: raw[9], status: name(raw[10]),
      phase: name(raw[11]), step: raw[12], cells, mean: mean(cells.map((cell) => cell.score)),
    };
  });
}

/** The mean of the numbers among `values`; null if there are none. */
export function mean(values: readonly (number | null)[]): number | null {
  let sum = 0;
  let count = 0;
  for (const value of values) {
    if (value !== null) {
      sum += value;
      count += 1;
    }
  }
  return count > 0 ? sum / count : null;
}

/** Where in a run an episode was played: its phase, with the training step if there is one. */
export function stage(row: { phase: string; step: number | null }): string {
  return row.step === null ? row.phase : `${row.phase} ${row.step}`;
}
