/** A score as a coloured square; hatched where there is none. */

import { points, visible } from "./format";

const SIGNS: Record<string, string> = { abstain: "–", error: "!", suspect: "?", pending: "…" };

export function scoreClass(status: string, score: number | null): string {
  return status === "ok" && score !== null ? `score s${Math.round(Math.min(10, Math.max(0, score)))}` : "score none";
}

export function scoreSign(status: string, score: number | null): string {
  return status === "ok" && score !== null ? String(Math.round(score)) : (SIGNS[status] ?? "·");
}

export function Score({ status, score }: { status: string; score: number | null }) {
  const scored = status === "ok" && score !== null;
  return (
    <span class={`${scoreClass(status, score)} badge`} title={scored ? "the coach's score, 0-10" : `no score: ${status}`}>
      {scored ? points(score) : status}
    </span>
  );
}

export function Outcome({ success, status }: { success: boolean | null; status: string }) {
  if (success === null) {
    return <span class="tag">unfinished</span>;
  }
  const name = success ? "success" : status === "ok" ? "failure" : status;
  return (
    <span class={success ? "tag good" : "tag bad"} title={success ? "success" : `failure: ${status}`}>
      {success ? "✓" : "✗"} {visible(name)}
    </span>
  );
}
