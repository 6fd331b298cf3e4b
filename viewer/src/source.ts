/** Where episodes come from: the server, or the page itself if it was exported. */

import type { Episode } from "./episode";
import type { Changes } from "./rows";

export interface About {
  title: string;
  path: string;
  /** Seconds by phase of a finished run. */
  phases: Record<string, number>;
  /** Whether the run has a report. */
  report: boolean;
}

export type Metrics = Record<string, number | null>[];

export interface Source {
  /** Whether a running run may still add episodes. */
  live: boolean;
  about(): Promise<About>;
  changes(since: number): Promise<Changes>;
  episode(number: number): Promise<Episode>;
  metrics(): Promise<Metrics>;
}

export function openSource(): Source {
  return document.getElementById("episodes") === null ? served : embedded;
}

const served: Source = {
  live: true,
  about: () => ask("about"),
  changes: (since) => ask(`episodes?since=${since}`),
  episode: (number) => ask(`episodes/${number}`),
  metrics: () => ask("metrics"),
};

const embedded: Source = {
  live: false,
  about: () => block("about"),
  changes: () => block("episodes"),
  episode: (number) => block(`episode-${number}`),
  metrics: () => block("metrics"),
};

async function ask<T>(what: string): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/api/${what}`);
  } catch {
    throw new Error("The viewer's server does not answer. Is it still running?");
  }
  if (response.ok) {
    return (await response.json()) as T;
  }
  const text = await response.text();
  let said: unknown = text;
  try {
    said = (JSON.parse(text) as { error?: unknown }).error;
  } catch {
    // a plain text, which is shown as it is
  }
  throw new Error(typeof said === "string" ? said : text);
}

async function block<T>(id: string): Promise<T> {
  const text = document.getElementById(id)?.textContent;
  if (text === undefined || text === null) {
    throw new Error(`This page does not hold ${id}.`);
  }
  return JSON.parse(text) as T;
}
