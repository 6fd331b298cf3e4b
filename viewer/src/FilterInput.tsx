/** The field of the filter. What is typed takes effect when the reader pauses. */

import { useEffect, useRef, useState } from "preact/hooks";

const PAUSE_MS = 120;

export function FilterInput({ text, onQuery }: { text: string; onQuery(text: string): void }) {
  const [draft, setDraft] = useState(text);
  const sent = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    if (text !== sent.current) {
      sent.current = text;
      setDraft(text);
    }
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []); // else it calls a reader back who has gone on
  const type = (typed: string): void => {
    setDraft(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      sent.current = typed;
      onQuery(typed);
    }, PAUSE_MS);
  };
  return (
    <input
      id="filter"
      type="search"
      value={draft}
      placeholder="agent=modeler_0 score<4 success=false"
      aria-label="Filter episodes"
      spellcheck={false}
      onInput={(event) => type(event.currentTarget.value)}
    />
  );
}
