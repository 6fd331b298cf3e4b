/** Why an episode failed: from its end back to the action that caused it. */

import type { Episode } from "./episode";
import { percent, visible } from "./format";
import { episodeHash } from "./route";

const DECIDED: Record<string, string> = {
  tracing: "the record alone",
  verdicts: "the scores of the suspects",
  coach: "the coach, asked once more",
};

export function BlamePanel({ episode }: { episode: Episode }) {
  const { outcome } = episode;
  if (outcome === null || outcome.success) {
    return null;
  }
  const { found, why_not } = episode.blame;
  return (
    <section class="blame" aria-label="Why it failed">
      <h2>Why it failed</h2>
      <p>{visible(outcome.reason || outcome.status)}</p>
      {found !== null && found.walk.length > 0 && (
        <ol>
          {found.walk.map((link) => {
            const action = episode.actions[link.action];
            const fraction = found.fractions[link.action] ?? 0;
            return (
              <li class={fraction > 0 ? "cause" : ""}>
                <a href={episodeHash(episode.number, link.action)}>
                  {visible(action?.agent ?? "")}, action {link.action}
                </a>{" "}
                {visible(link.reason)}
                {fraction > 0 && <b class="tag bad">cause, {percent(fraction)}</b>}
              </li>
            );
          })}
        </ol>
      )}
      <p class="small dim">
        {found === null
          ? `Not traced: ${visible(why_not)}.`
          : found.fractions.length > 0
            ? `Decided by ${DECIDED[found.decided] ?? found.decided}.`
            : "Undecided: the record does not say which action caused it."}
      </p>
    </section>
  );
}
