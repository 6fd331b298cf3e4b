/** Keys of the keyboard. They rest while a reader types into a field. */

import { useLayoutEffect } from "preact/hooks";

export const KEYS: [string, string][] = [
  ["j / k", "next, previous episode or action"],
  ["Enter", "open the episode"],
  ["n / p", "next, previous episode, from inside one"],
  ["u", "back to the list"],
  ["/", "filter"],
  ["1 2 3", "episodes, strata, training"],
  ["t", "dark or light"],
  ["?", "this help"],
];

export function useKeys(handlers: Record<string, () => void>): void {
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      const typing = target.closest("input, select, textarea") !== null;
      const handler = handlers[event.key];
      if (handler === undefined || typing || event.ctrlKey || event.metaKey || event.altKey) {
        return;
      }
      event.preventDefault();
      handler();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
