/** The keys of the keyboard and the words of the filter. */

import { useEffect, useRef } from "preact/hooks";
import { KEYS } from "./keys";
import { FIELDS } from "./query";

export function HelpDialog({ onClose }: { onClose(): void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="help">
        {KEYS.map(([key, what]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <h2>Filter</h2>
      <p>
        <code>agent=modeler_0 score&lt;4 status=timeout</code> shows episodes with an action that meets all three
        conditions, and frames it. Signs: = != &lt; &lt;= &gt; &gt;= and ~ (contains). Words alone are looked for in task, topic, environment, file and how the episode ended.
      </p>
      <p class="dim">{FIELDS.join(", ")}</p>
      <button type="button" onClick={() => dialog.current?.close()}>
        close
      </button>
    </dialog>
  );
}
