/** An episode, loaded when it is first looked at. */

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Episode } from "./episode";
import { openSource, type Source } from "./source";

export const SourceContext = createContext<Source>(openSource());

interface Loaded {
  episode: Episode | null;
  problem: string;
}

export function useEpisode(number: number): Loaded {
  const source = useContext(SourceContext);
  const [loaded, setLoaded] = useState<Loaded>({ episode: null, problem: "" });
  useEffect(() => {
    let wanted = true;
    const set = (found: Loaded): void => {
      if (wanted) {
        setLoaded(found);
      }
    };
    source.episode(number).then(
      (episode) => set({ episode, problem: "" }),
      (error: Error) => set({ episode: null, problem: error.message }),
    );
    return () => {
      wanted = false;
    };
  }, [number]);
  return loaded.episode?.number === number || loaded.problem !== "" ? loaded : { episode: null, problem: "" };
}
