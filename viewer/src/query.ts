/** The filter, as in `mappa-env trace ls`: `agent=modeler_0 score<4 status=timeout`. All conditions must hold. */

import type { Cell, Row } from "./rows";

type Value = string | number | bigint | boolean | null;
type Test = (values: Value[]) => boolean;

const OF_EPISODE: Record<string, (row: Row) => Value> = {
  env: (row) => row.env,
  task: (row) => row.task,
  topic: (row) => row.topic,
  family: (row) => row.family,
  seed: (row) => BigInt(row.seed),
  success: (row) => row.success,
  outcome: (row) => row.score,
  ended: (row) => row.status,
  phase: (row) => row.phase,
  step: (row) => row.step,
  key: (row) => row.key,
  file: (row) => row.file,
  mean: (row) => row.mean,
  actions: (row) => row.cells.length,
};
/** Field of an action -> its values; one of several must meet a condition. */
const OF_ACTION: Record<string, (cell: Cell) => Value[]> = {
  agent: (cell) => [cell.agent],
  role: (cell) => [cell.agent.replace(/_\d+$/, "")],
  turn: (cell) => [cell.turn],
  segment: (cell) => [cell.segment],
  score: (cell) => [cell.score],
  reward: (cell) => [cell.valid ? cell.reward : null],
  valid: (cell) => [cell.valid],
  return: (cell) => [cell.returned],
  advantage: (cell) => [cell.advantage],
  status: (cell) => [cell.verdict, cell.tool],
  verdict: (cell) => [cell.verdict],
  tool: (cell) => [cell.tool],
  stratum: (cell) => [cell.stratum],
};
export const FIELDS = [...Object.keys(OF_ACTION), ...Object.keys(OF_EPISODE)];

const WORDS = /(?:[^\s"]|"[^"]*")+/g;
const CONDITION = /^([a-z_]+)(!=|<=|>=|=|<|>|~)(.*)$/;
const COMPARED: Record<string, (a: number | bigint, b: number | bigint) => boolean> = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};

export interface Query {
  /** Whether the episode is shown. */
  matches(row: Row): boolean;
  /** Whether the action meets all conditions on actions; false if there are none. */
  marks(cell: Cell): boolean;
  /** What is wrong with the query; empty if nothing is. */
  problem: string;
}

export function parse(text: string): Query {
  const ofEpisode: ((row: Row) => boolean)[] = [];
  const ofAction: ((cell: Cell) => boolean)[] = [];
  let problem = "";
  for (const word of text.match(WORDS) ?? []) {
    const [, field = "", sign = "", raw = ""] = CONDITION.exec(word) ?? [];
    const value = raw.replaceAll('"', "");
    const episodeValue = OF_EPISODE[field];
    const actionValues = OF_ACTION[field];
    if (field === "") {
      const wanted = word.replaceAll('"', "").toLowerCase();
      ofEpisode.push((row) =>
        [row.task, row.topic, row.env, row.file, row.status].some((each) => each.toLowerCase().includes(wanted)),
      );
    } else if (value === "") {
      problem = `${field}${sign} needs a value.`;
    } else if (sign in COMPARED && Number.isNaN(Number(value))) {
      problem = `${field}${sign} needs a number, not ${value}.`;
    } else if (episodeValue !== undefined) {
      const test = testFor(sign, value);
      ofEpisode.push((row) => test([episodeValue(row)]));
    } else if (actionValues !== undefined) {
      const test = testFor(sign, value);
      ofAction.push((cell) => test(actionValues(cell)));
    } else {
      problem = `There is no field ${field}; choose from ${FIELDS.join(", ")}.`;
    }
  }
  const marks = (cell: Cell): boolean => ofAction.length > 0 && ofAction.every((test) => test(cell));
  return {
    marks,
    matches: (row) => ofEpisode.every((test) => test(row)) && (ofAction.length === 0 || row.cells.some(marks)),
    problem,
  };
}

function testFor(sign: string, text: string): Test {
  const number = /^[+-]?\d+$/.test(text) ? BigInt(text.replace(/^\+/, "")) : Number(text);
  const isNumber = (value: Value): value is number | bigint => typeof value === "number" || typeof value === "bigint";
  const same = (value: Value): boolean => (isNumber(value) ? value == number : text === shown(value));
  const compare = COMPARED[sign];
  if (compare !== undefined) {
    return (values) => values.some((value) => isNumber(value) && compare(value, number));
  }
  if (sign === "~") {
    return (values) => values.some((value) => shown(value).toLowerCase().includes(text.toLowerCase()));
  }
  return sign === "=" ? (values) => values.some(same) : (values) => !values.some(same);
}

function shown(value: Value): string {
  return value === null || value === "" ? "none" : String(value);
}
