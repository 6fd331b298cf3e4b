/** The calls of tools other than Python: what was asked, and what came back. */

import type { Call } from "./episode";
import { plural, seconds, visible } from "./format";
import type { Marks, Place } from "./quotes";
import { Text } from "./Text";

export function Calls({ calls, marks, active }: { calls: Call[]; marks: Marks; active: number | null }) {
  return (
    <>
      {calls.map((call, index) => (
        <>
          <h4>
            called {visible(call.tool || "no tool")}{" "}
            <span class="dim">
              {visible(call.status)}, {seconds(call.seconds)}
              {call.attester !== "host" && `, the ${visible(call.attester)}'s word`}
              {call.omitted > 0 && `, ${plural(call.omitted, "character")} cut`}
            </span>
          </h4>
          <Text text={asked(call)} lines={8} />
          {call.text === "" ? (
            <p class="dim">It returned nothing.</p>
          ) : (
            <Text text={call.text} marks={marks.get(`call ${index}` as Place)} active={active} lines={16} />
          )}
        </>
      ))}
    </>
  );
}

/** The arguments of a call, one a line. */
export function asked(call: Call): string {
  return Object.entries(call.arguments)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("\n");
}
