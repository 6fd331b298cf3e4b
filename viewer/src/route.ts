/** The address after `#`: what is shown, so that every view can be linked to. */

import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "episodes" | "strata"; query: string; sort: string }
  | { view: "episode"; number: number; action: number | null }
  | { view: "key"; key: string }
  | { view: "compare"; left: number; right: number }
  | { view: "training"; step: number | null };

export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(search);
  const [view, first, second] = path.split("/");
  if (view === "episode" && isNumber(first)) {
    const action = given.get("action") ?? undefined;
    return { view, number: Number(first), action: isNumber(action) ? Number(action) : null };
  }
  const key = given.get("key");
  if (view === "episode" && key !== null) {
    return { view: "key", key };
  }
  if (view === "compare" && isNumber(first) && isNumber(second)) {
    return { view, left: Number(first), right: Number(second) };
  }
  if (view === "training") {
    const step = given.get("step") ?? undefined;
    return { view, step: isNumber(step) ? Number(step) : null };
  }
  return {
    view: view === "strata" ? "strata" : "episodes",
    query: given.get("q") ?? "",
    sort: given.get("sort") ?? "order",
  };
}

export function listHash(view: "episodes" | "strata", query: string, sort: string): string {
  const given = new URLSearchParams();
  if (query !== "") {
    given.set("q", query);
  }
  if (sort !== "order") {
    given.set("sort", sort);
  }
  return `#/${view}${given.size > 0 ? `?${given}` : ""}`;
}

export function episodeHash(number: number, action: number | null = null): string {
  return `#/episode/${number}${action === null ? "" : `?action=${action}`}`;
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parseRoute(hash);
}

function isNumber(text: string | undefined): text is string {
  return text !== undefined && /^\d{1,9}$/.test(text);
}

export function compareHash(left: number, right: number): string {
  return `#/compare/${left}/${right}`;
}
