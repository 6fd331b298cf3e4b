/** Other episodes of the same task, to be opened or compared. */

import { stage, type Row } from "./rows";
import { compareHash, episodeHash } from "./route";
import { points } from "./format";

const MOST = 12;

export function SameTask({ rows, number }: { rows: Row[]; number: number }) {
  const mine = rows.find((row) => row.number === number);
  if (mine === undefined) {
    return null;
  }
  const others = rows.filter((row) => row.task === mine.task && row.env === mine.env && row.number !== number);
  if (others.length === 0) {
    return null;
  }
  others.sort((a, b) => Number(b.seed === mine.seed) - Number(a.seed === mine.seed) || a.number - b.number);
  return (
    <section class="same" aria-label="The same task">
      <h2>Same task</h2>
      <ul>
        {others.slice(0, MOST).map((row) => (
          <li>
            <i class={`dot ${row.success ? "good" : "bad"}`} title={row.success ? "success" : "failure"} />
            <a href={episodeHash(row.number)}>{stage(row)}</a>{" "}
            <span class="dim">
              {row.seed === mine.seed ? "same seed" : `seed ${row.seed}`}, mean {points(row.mean)}
            </span>{" "}
            <a href={compareHash(number, row.number)}>compare</a>
          </li>
        ))}
      </ul>
      {others.length > MOST && <p class="small dim">and {others.length - MOST} more: filter for task={mine.task}</p>}
    </section>
  );
}
