/** All episodes of the source; those of a running run as they come. */

import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { decode, type Row } from "./rows";
import { SourceContext } from "./useEpisode";

const EVERY_MS = 2000;

interface Rows {
  /** null until the first answer. */
  rows: Row[] | null;
  problem: string;
}

/** `follow`: keep asking for what is new. */
export function useRows(follow: boolean): Rows {
  const source = useContext(SourceContext);
  const [found, setFound] = useState<Rows>({ rows: null, problem: "" });
  const revision = useRef(0);
  const known = useRef<Row[]>([]);
  useEffect(() => {
    const ask = async (): Promise<void> => {
      try {
        const changes = await source.changes(revision.current);
        revision.current = changes.revision;
        const fresh = decode(changes);
        if (fresh.length > 0 || known.current.length === 0) {
          const rows = [...known.current];
          for (const row of fresh) {
            rows[row.number] = row;
          }
          known.current = rows;
        }
        setFound((before) => (before.rows === known.current && before.problem === "" ? before : { rows: known.current, problem: "" }));
      } catch (error) {
        setFound({ rows: known.current, problem: (error as Error).message });
      }
    };
    if (revision.current === 0) {
      void ask();
    }
    if (!follow || !source.live) {
      return undefined;
    }
    const timer = setInterval(() => {
      if (!document.hidden) {
        void ask();
      }
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [follow]);
  return found;
}
