/** One action: the evidence on the left, the verdict on the right. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Answer } from "./Answer";
import { Calls } from "./Calls";
import type { Action, Episode, Tool } from "./episode";
import { bytes, percent, plural, points, seconds, visible } from "./format";
import { agentIndex } from "./layout";
import { marksOf, type Marks, type Place } from "./quotes";
import { episodeHash } from "./route";
import { Text } from "./Text";
import { VerdictPane } from "./VerdictPane";

interface Props {
  episode: Episode;
  action: Action;
  agents: string[];
  selected: boolean;
}

export function ActionCard({ episode, action, agents, selected }: Props) {
  const card = useRef<HTMLElement>(null);
  const [quote, setQuote] = useState<number | null>(null);
  const marks = useMemo(() => marksOf(action, episode.texts), [action]);
  useEffect(() => {
    if (selected) {
      card.current?.scrollIntoView({ block: "start" });
    }
  }, [selected]);
  useEffect(() => {
    if (quote !== null) {
      const mark = card.current?.querySelector(`mark[data-criterion="${quote}"]`);
      mark?.closest("details")?.setAttribute("open", "");
      mark?.scrollIntoView({ block: "center" });
    }
  }, [quote]);
  const fraction = episode.blame.found?.failed ? (episode.blame.found.fractions[action.step] ?? 0) : 0;
  const { timing } = action;
  return (
    <article ref={card} class={selected ? "action selected" : "action"} aria-labelledby={`action-${action.step}`}>
      <header>
        <h3 id={`action-${action.step}`}>
          <i class={`dot lane${agentIndex(agents, action.agent)}`} />
          {visible(action.agent)} <span class="dim">turn {action.turn}</span>
        </h3>
        <span class="dim">action {action.step}</span>
        {action.tool !== null && (
          <span class={action.tool.status === "ok" ? "tag" : "tag bad"}>code: {visible(action.tool.status)}</span>
        )}
        {action.calls.map((call) => (
          <span class={call.status === "ok" ? "tag" : "tag bad"}>
            {visible(call.tool || "no tool")}: {visible(call.status)}
          </span>
        ))}
        {fraction > 0 && <span class="tag bad">blamed {percent(fraction)}</span>}
        {action.learned !== null && (
          <span class="dim">
            {visible(action.learned.policy)} v{action.learned.version}
            {action.learned.tokens > 0 && ` · ${plural(action.learned.tokens, "token")}`}
            {action.learned.stopped === "length" && " (cut)"}
          </span>
        )}
        {timing !== null && (
          <span class="dim" title="from prompt to action · code, coach and grading">
            policy {seconds(timing.waited_s)} · environment {seconds(timing.took_s)}
          </span>
        )}
      </header>
      <div class="sides">
        <div class="evidence">
          <Prompt action={action} texts={episode.texts} marks={marks} active={quote} />
          {action.thinking !== "" && (
            <details>
              <summary>thinking</summary>
              <Text text={action.thinking} marks={marks.get("thinking")} active={quote} />
            </details>
          )}
          <h4>action</h4>
          {action.answer === "" ? (
            <p class="dim">It said nothing.</p>
          ) : (
            <Answer text={action.answer} marks={marks.get("answer") ?? []} active={quote} />
          )}
          {action.missing.length > 0 && (
            <p class="note">Nobody had written {action.missing.map(visible).join(", ")}.</p>
          )}
          {action.tool !== null && <Output tool={action.tool} marks={marks} active={quote} />}
          <Calls calls={action.calls} marks={marks} active={quote} />
          <Files episode={episode} action={action} />
          <More action={action} />
        </div>
        <VerdictPane
          action={action}
          marks={marks}
          onQuote={(criterion) => {
            setQuote(null);
            requestAnimationFrame(() => setQuote(criterion));
          }}
        />
      </div>
    </article>
  );
}

interface PartProps {
  action: Action;
  texts: string[];
  marks: Marks;
  active: number | null;
}

function Prompt({ action, texts, marks, active }: PartProps) {
  const message = (index: number) => {
    const [role = "", place = -1] = action.messages[index] ?? [];
    return (
      <div class={index >= action.known ? "message new" : "message"}>
        <span class="role">
          {visible(role)}
          {index >= action.known && <b> new</b>}
        </span>
        <Text
          text={texts[place] ?? ""}
          marks={marks.get(`message ${index}` as Place)}
          active={active}
          lines={12}
        />
      </div>
    );
  };
  const all = action.messages.map((_, index) => index);
  return (
    <details class="prompt">
      <summary>
        prompt <span class="dim">{plural(all.length - action.known, "new message")}{action.known > 0 && ` after ${action.known}`}</span>
      </summary>
      {action.known > 0 && (
        <details>
          <summary class="dim">{plural(action.known, "message")} that it had seen</summary>
          {all.slice(0, action.known).map(message)}
        </details>
      )}
      {all.slice(action.known).map(message)}
    </details>
  );
}

function Output({ tool, marks, active }: { tool: Tool; marks: Marks; active: number | null }) {
  return (
    <>
      <h4>
        output{" "}
        <span class="dim">
          {visible(tool.status)}
          {tool.exit_code !== null && `, exit ${tool.exit_code}`}, {seconds(tool.wall_s)}
          {tool.truncated > 0 && `, ${bytes(tool.truncated)} dropped`}
        </span>
      </h4>
      {tool.stdout !== "" && <Text text={tool.stdout} marks={marks.get("stdout")} active={active} lines={16} />}
      {tool.stderr !== "" && (
        <div class="stderr">
          <Text text={tool.stderr} marks={marks.get("stderr")} active={active} lines={16} />
        </div>
      )}
      {tool.stdout === "" && tool.stderr === "" && <p class="dim">It printed nothing.</p>}
    </>
  );
}

function Files({ episode, action }: { episode: Episode; action: Action }) {
  const used = episode.threads.filter((thread) => thread.readers.includes(action.step) && thread.writer !== action.step);
  const changed = action.tool?.files ?? [];
  if (changed.length + used.length === 0) {
    return null;
  }
  return (
    <>
      <h4>files</h4>
      <ul class="files">
        {used.map((thread) => (
          <li>
            <span class="op">names</span> <code>{visible(thread.path)}</code>{" "}
            <a href={episodeHash(episode.number, thread.writer)}>from action {thread.writer}</a>
          </li>
        ))}
        {changed.map((change) => {
          const thread = episode.threads.find((each) => each.writer === action.step && each.path === change.path);
          return (
            <li>
              <span class="op">{visible(change.op)}</span> <code>{visible(change.path)}{change.kind === "dir" && "/"}</code>{" "}
              <span class="dim" title={change.sha256}>
                {change.kind === "file" ? bytes(change.size) : change.kind === "dir" ? "" : visible(change.kind)}
              </span>
              {thread !== undefined && (
                <>
                  {" "}
                  named by{" "}
                  {thread.readers.map((reader, index) => (
                    <>
                      {index > 0 && ", "}
                      <a href={episodeHash(episode.number, reader)}>action {reader}</a>
                    </>
                  ))}
                </>
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}

function More({ action }: { action: Action }) {
  const { probe, correction } = action;
  const proposed = correction === null ? action.verdict.corrected_action : null;
  return (
    <>
      {probe !== null && (
        <details>
          <summary>facts of the probe</summary>
          <Text text={JSON.stringify(probe, null, 1)} />
        </details>
      )}
      {correction !== null && (
        <details>
          <summary>
            corrected action{" "}
            <span class="dim">
              {points(correction.was)} → {points(correction.verdict.score)},{" "}
              {correction.kept ? "kept" : `rejected: ${visible(correction.reason)}`}
            </span>
          </summary>
          <Answer text={correction.action} marks={[]} active={null} />
          {correction.tool !== null && <Output tool={correction.tool} marks={new Map()} active={null} />}
        </details>
      )}
      {proposed !== null && (
        <details>
          <summary>what the coach would have done</summary>
          <Answer text={proposed} marks={[]} active={null} />
        </details>
      )}
    </>
  );
}
