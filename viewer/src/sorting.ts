/** The orders of the list. */

import type { Row } from "./rows";

const ORDERS: Record<string, (a: Row, b: Row) => number> = {
  newest: (a, b) => b.number - a.number,
  worst: (a, b) => (a.mean ?? 11) - (b.mean ?? 11) || a.number - b.number,
  failures: (a, b) => Number(a.success ?? true) - Number(b.success ?? true) || a.number - b.number,
  task: (a, b) => (a.task < b.task ? -1 : a.task > b.task ? 1 : a.number - b.number),
};

/** `rows` in the order `name`; in that of the run for an unknown one. */
export function sorted(rows: Row[], name: string): Row[] {
  const order = ORDERS[name];
  return order === undefined ? rows : [...rows].sort(order);
}
