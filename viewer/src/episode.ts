/** One episode with everything; `mappa_env/viewer/document.py` writes it. */

export interface FileChange {
  path: string;
  op: string;
  size: number;
  sha256: string;
  kind: string;
}

export interface Tool {
  status: string;
  exit_code: number | null;
  stdout: string;
  stderr: string;
  truncated: number;
  wall_s: number;
  files: FileChange[];
  isolation: string;
  trust: string;
}

export interface Call {
  tool: string;
  arguments: Record<string, unknown>;
  status: string;
  text: string;
  /** Whose word the text is: the host's, or that of a server. */
  attester: string;
  seconds: number;
  omitted: number;
}

export interface Criterion {
  name: string;
  score: number;
  weight: number;
  reason: string;
  quote: string;
}

export interface Verdict {
  status: string;
  score: number | null;
  reasoning: string;
  criteria: Criterion[];
  blame: string | null;
  corrected_action: string | null;
  coach: string;
  asked: { model: string; calls: number; latency_s: number; cost: number | null; spread: number | null } | null;
}

export interface Correction {
  action: string;
  tool: Tool | null;
  verdict: Verdict;
  was: number | null;
  kept: boolean;
  reason: string;
}

export interface Learned {
  policy: string;
  version: number;
  reward: number;
  valid: boolean;
  returned: number | null;
  advantage: number | null;
  stopped: string;
  tokens: number;
}

export interface Action {
  step: number;
  column: number;
  segment: number;
  agent: string;
  turn: number;
  last_turn: boolean;
  /** Role and place in `texts` of every message that the agent saw. */
  messages: [string, number][];
  /** How many of them it had seen before. */
  known: number;
  thinking: string;
  answer: string;
  code: string | null;
  tool: Tool | null;
  calls: Call[];
  verdict: Verdict;
  reward: number;
  reward_valid: boolean;
  stratum: [string, string, number];
  missing: string[];
  probe: unknown;
  correction: Correction | null;
  timing: { at: number; waited_s: number; took_s: number } | null;
  learned: Learned | null;
}

export interface Thread {
  path: string;
  writer: number;
  readers: number[];
}

export interface Attribution {
  failed: boolean;
  fractions: number[];
  decided: string;
  walk: { action: number; reason: string }[];
  suspects: number[];
}

export interface Outcome {
  score: number;
  success: boolean;
  status: string;
  reason: string;
  metrics: Record<string, number | null>;
}

export interface Episode {
  number: number;
  file: string;
  key: string;
  env: string;
  task: { id: string; prompt: string; metric: string; topic: string; split: string; files: Record<string, number> };
  seed: string;
  phase: string;
  training_step: number | null;
  settings: Record<string, unknown>;
  /** Name and title of every agent. */
  team: [string, string][];
  outcome: Outcome | null;
  actions: Action[];
  threads: Thread[];
  blame: { found: Attribution | null; why_not: string };
  texts: string[];
}

/** How code and calls ended: the first status that is not ok, else ok; empty if there were none. */
export function ran(action: Action): string {
  const statuses = [...(action.tool === null ? [] : [action.tool]), ...action.calls].map((each) => each.status);
  return statuses.find((status) => status !== "ok") ?? (statuses.length > 0 ? "ok" : "");
}
