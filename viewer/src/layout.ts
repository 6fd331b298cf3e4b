/** Where the actions of many episodes stand in the list: under their agent, if every team is a chain. */

import type { Row } from "./rows";

export interface Group {
  agent: string;
  /** The most actions of the agent in an episode. */
  width: number;
}

/** Agents in order with the columns that they need; null if an agent returns after another. */
export function groups(rows: readonly Row[]): Group[] | null {
  const widths = new Map<string, number>();
  for (const row of rows) {
    const counts = new Map<string, number>();
    let last = "";
    for (const cell of row.cells) {
      if (cell.agent !== last && counts.has(cell.agent)) {
        return null;
      }
      last = cell.agent;
      counts.set(last, (counts.get(last) ?? 0) + 1);
    }
    for (const [agent, count] of counts) {
      widths.set(agent, Math.max(widths.get(agent) ?? 0, count));
    }
  }
  return [...widths].map(([agent, width]) => ({ agent, width }));
}

/** Colours of agents, the same on every view: by their place among all names. */
export function agentIndex(agents: readonly string[], agent: string): number {
  return Math.max(0, agents.indexOf(agent)) % 7;
}
