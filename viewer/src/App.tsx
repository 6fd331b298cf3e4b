/** The frame around the views: what is shown, the filter, and the keys that work everywhere. */

import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import { CompareView } from "./CompareView";
import { EpisodeList } from "./EpisodeList";
import { EpisodeView } from "./EpisodeView";
import { FilterBar } from "./FilterBar";
import { HelpDialog } from "./HelpDialog";
import { visible } from "./format";
import { useKeys } from "./keys";
import { parse } from "./query";
import { episodeHash, listHash, useRoute } from "./route";
import { sorted } from "./sorting";
import type { About } from "./source";
import { StrataView } from "./StrataView";
import { toggleTheme } from "./theme";
import { TrainingView } from "./TrainingView";
import { SourceContext } from "./useEpisode";
import { useRows } from "./useRows";

interface List {
  query: string;
  sort: string;
}

export function App() {
  const source = useContext(SourceContext);
  const route = useRoute();
  const [about, setAbout] = useState<About>({ title: "", path: "", phases: {}, report: false });
  const [list, setList] = useState<List>({ query: "", sort: "order" });
  const [current, setCurrent] = useState<number | null>(null);
  const [follow, setFollow] = useState(source.live);
  const [help, setHelp] = useState(false);
  const { rows, problem } = useRows(follow);

  const listed = route.view === "episodes" || route.view === "strata" ? route : list;
  useEffect(() => setList({ query: listed.query, sort: listed.sort }), [listed.query, listed.sort]);
  useEffect(() => {
    source.about().then(setAbout, () => undefined); // the list says what is wrong
  }, []);
  useEffect(() => {
    if (route.view === "episode") {
      setCurrent(route.number);
    }
  }, [route]);

  useEffect(() => {
    // A report knows an episode by its key; its number is only this viewer's.
    const found = route.view === "key" ? rows?.find((row) => row.key === route.key) : undefined;
    if (found !== undefined) {
      location.replace(episodeHash(found.number));
    }
  }, [route, rows]);

  const query = useMemo(() => parse(listed.query), [listed.query]);
  const shown = useMemo(() => sorted((rows ?? []).filter(query.matches), listed.sort), [rows, query, listed.sort]);
  const order = useMemo(() => shown.map((row) => row.number), [shown]);
  const agents = useMemo(
    () => [...new Set((rows ?? []).slice(0, 500).flatMap((row) => row.cells.map((cell) => cell.agent)))],
    [rows],
  );
  const back = listHash("episodes", listed.query, listed.sort);
  const go = (hash: string) => () => {
    location.hash = hash;
  };
  useKeys({
    "1": go(back),
    "2": go(listHash("strata", listed.query, listed.sort)),
    "3": go("#/training"),
    "/": () => document.getElementById("filter")?.focus(),
    t: toggleTheme,
    "?": () => setHelp(true),
  });
  const tab = (hash: string, name: string, active: boolean) => (
    <a href={hash} aria-current={active ? "page" : undefined}>
      {name}
    </a>
  );
  const inList = route.view !== "training" && route.view !== "strata";
  return (
    <>
      <header class="top">
        <b class="title">{about.title}</b>
        <nav aria-label="Views">
          {tab(back, "episodes", inList)}
          {tab(listHash("strata", listed.query, listed.sort), "strata", route.view === "strata")}
          {tab("#/training", "training", route.view === "training")}
          {source.live && about.report && <a href="report.html">report</a>}
        </nav>
        <span class="grow" />
        {source.live && (
          <button type="button" class="live" aria-pressed={follow} onClick={() => setFollow(!follow)}>
            <i aria-hidden="true" />
            follow
          </button>
        )}
        <button type="button" onClick={toggleTheme} aria-label="Dark or light" title="dark or light (t)">
          ◐
        </button>
        <button type="button" onClick={() => setHelp(true)} aria-label="Help" title="keys and filter (?)">
          ?
        </button>
      </header>
      <main class={`view-${route.view}`}>
        {problem !== "" && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        {rows === null ? (
          <p class="empty">Loading …</p>
        ) : (
          <>
            {(route.view === "episodes" || route.view === "strata") && (
              <FilterBar
                all={rows}
                shown={shown}
                query={query}
                text={listed.query}
                sort={route.view === "episodes" ? listed.sort : null}
                onQuery={(text) => location.replace(listHash(route.view, text, listed.sort))}
                onSort={(sort) => location.replace(listHash("episodes", listed.query, sort))}
              />
            )}
            {route.view === "episodes" && (
              <EpisodeList key={`${listed.query} ${listed.sort}`} rows={shown} query={query} agents={agents} current={current} />
            )}
            {route.view === "key" && <p class="empty">These traces have no episode {visible(route.key)}.</p>}
            {route.view === "strata" && <StrataView rows={shown} />}
            {route.view === "training" && <TrainingView about={about} step={route.step} />}
            {route.view === "compare" && (
              <CompareView left={route.left} right={route.right} agents={agents} back={back} />
            )}
            {route.view === "episode" && (
              <EpisodeView number={route.number} action={route.action} rows={rows} order={order} agents={agents} back={back} />
            )}
          </>
        )}
      </main>
      {help && <HelpDialog onClose={() => setHelp(false)} />}
    </>
  );
}
