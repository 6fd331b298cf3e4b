/** The coach's verdict beside the action, and what became of it in training. */

import type { Action } from "./episode";
import { percent, plural, points, seconds, signed, visible } from "./format";
import { isMarked, type Marks } from "./quotes";
import { Score } from "./Score";

interface Props {
  action: Action;
  marks: Marks;
  onQuote(criterion: number): void;
}

export function VerdictPane({ action, marks, onQuote }: Props) {
  const { verdict } = action;
  const reasons = verdict.criteria.map((each) => each.reason).filter((reason) => reason !== "").join("; ");
  return (
    <section class="verdict" aria-label={`Verdict on action ${action.step}`}>
      <Chain action={action} />
      {verdict.blame !== null && <p class="blames">blames {visible(verdict.blame)}</p>}
      {verdict.criteria.length > 0 && (
        <ul class="criteria">
          {verdict.criteria.map((criterion, index) => (
            <li>
              <div class="line">
                <b>{visible(criterion.name)}</b>
                <span class="bar" aria-hidden="true">
                  <i style={{ width: percent(Math.min(1, Math.max(0, criterion.score))).replace(" ", "") }} />
                </span>
                <span class="number">{percent(criterion.score)}</span>
                <span class="weight" title="weight">
                  × {criterion.weight.toFixed(2)}
                </span>
              </div>
              {criterion.reason !== "" && <p>{visible(criterion.reason)}</p>}
              {criterion.quote !== "" &&
                (isMarked(marks, index) ? (
                  <button type="button" class="quote" onClick={() => onQuote(index)}>
                    “{visible(criterion.quote)}”
                  </button>
                ) : (
                  <p class="quote lost" title="The coach cites what is not in the evidence.">
                    “{visible(criterion.quote)}” <b>not in the evidence</b>
                  </p>
                ))}
            </li>
          ))}
        </ul>
      )}
      {verdict.reasoning !== "" && verdict.reasoning !== reasons && (
        <p class="reasoning">{visible(verdict.reasoning)}</p>
      )}
      <p class="small dim">
        {visible(verdict.coach || "no coach")} · {action.stratum.map((part) => visible(String(part))).join("/")}
        {verdict.asked !== null && (
          <>
            {" "}
            · {visible(verdict.asked.model)}, {plural(verdict.asked.calls, "call")}, {seconds(verdict.asked.latency_s)}
            {verdict.asked.cost !== null && `, $${verdict.asked.cost.toFixed(4)}`}
          </>
        )}
      </p>
    </section>
  );
}

/** Score, reward, return and advantage, as far as the trace has them. */
function Chain({ action }: { action: Action }) {
  const { verdict, learned } = action;
  const valid = learned?.valid ?? action.reward_valid;
  return (
    <dl class="chain">
      <div>
        <dt>score</dt>
        <dd>
          <Score status={verdict.status} score={verdict.score} />
        </dd>
      </div>
      <div>
        <dt>reward</dt>
        <dd class={valid ? "" : "masked"} title={valid ? "after shaping, 0-10" : "not valid: masked in training"}>
          {valid ? points(learned?.reward ?? action.reward) : "masked"}
        </dd>
      </div>
      {learned !== null && (
        <>
          <div>
            <dt>return</dt>
            <dd>{signed(learned.returned)}</dd>
          </div>
          <div>
            <dt>advantage</dt>
            <dd class={(learned.advantage ?? 0) < 0 ? "down" : "up"}>{signed(learned.advantage)}</dd>
          </div>
        </>
      )}
    </dl>
  );
}
