/** Filter, order and the figures of what is shown. */

import { mean, stage, type Row } from "./rows";
import { percent, plural, points } from "./format";
import { FilterInput } from "./FilterInput";
import { Legend } from "./Legend";
import type { Query } from "./query";

export const SORTS: Record<string, string> = {
  order: "in order",
  newest: "newest first",
  worst: "lowest mean score first",
  failures: "failures first",
  task: "by task",
};

interface Props {
  all: Row[];
  shown: Row[];
  query: Query;
  text: string;
  sort: string | null;
  onQuery(text: string): void;
  onSort(sort: string): void;
}

export function FilterBar({ all, shown, query, text, sort, onQuery, onSort }: Props) {
  const ended = shown.filter((row) => row.success !== null);
  const won = ended.filter((row) => row.success).length;
  const stages = new Map(all.map((row) => [stage(row), row]));
  const agents = [...new Set(all.slice(0, 500).flatMap((row) => row.cells.map((cell) => cell.agent)))];
  const set = (key: string, value: string): void => onQuery(replaced(text, key, value));
  return (
    <div class="filters">
      <FilterInput text={text} onQuery={onQuery} />
      <label>
        stage
        <select
          value={valueOf(text, "step") !== "" ? `step=${valueOf(text, "step")}` : `phase=${valueOf(text, "phase")}`}
          onChange={(event) => {
            const [key = "phase", value = ""] = event.currentTarget.value.split("=");
            onQuery(replaced(replaced(replaced(text, "phase", ""), "step", ""), key, value));
          }}
        >
          <option value="phase=">all</option>
          {[...new Set(all.map((row) => row.phase))].map((phase) => (
            <option value={`phase=${phase}`}>{phase}</option>
          ))}
          {[...stages.values()]
            .filter((row) => row.step !== null)
            .map((row) => (
              <option value={`step=${row.step}`}>{stage(row)}</option>
            ))}
        </select>
      </label>
      <label>
        outcome
        <select value={valueOf(text, "success")} onChange={(event) => set("success", event.currentTarget.value)}>
          <option value="">all</option>
          <option value="false">failure</option>
          <option value="true">success</option>
        </select>
      </label>
      <label>
        agent
        <select value={valueOf(text, "agent")} onChange={(event) => set("agent", event.currentTarget.value)}>
          <option value="">all</option>
          {agents.map((agent) => (
            <option value={agent}>{agent}</option>
          ))}
        </select>
      </label>
      {sort !== null && (
        <label>
          order
          <select value={sort} onChange={(event) => onSort(event.currentTarget.value)}>
            {Object.entries(SORTS).map(([key, name]) => (
              <option value={key}>{name}</option>
            ))}
          </select>
        </label>
      )}
      <p class="figures" role="status">
        {query.problem !== "" ? (
          <span class="problem">
            {query.problem}
          </span>
        ) : (
          <>
            <b>{plural(shown.length, "episode")}</b>
            {shown.length < all.length && ` of ${all.length.toLocaleString("en")}`}
            {ended.length > 0 && <> · success {percent(won / ended.length)}</>} · mean score{" "}
            {points(mean(shown.map((row) => row.mean)))}
          </>
        )}
        {sort !== null && <Legend />}
      </p>
    </div>
  );
}

function valueOf(text: string, key: string): string {
  return new RegExp(`(?:^|\\s)${key}=(?:"([^"]*)"|(\\S*))`).exec(text)?.slice(1).find((each) => each !== undefined) ?? "";
}

function replaced(text: string, key: string, value: string): string {
  const rest = text.replace(new RegExp(`(?:^|\\s)${key}=(?:"[^"]*"|\\S*)`), "").trim();
  const quoted = /\s/.test(value) ? `"${value}"` : value;
  return value === "" ? rest : `${rest} ${key}=${quoted}`.trim();
}
