/** Python's tokens, for colour: comments, strings, keywords, numbers. */

export interface Token {
  start: number;
  end: number;
  kind: "comment" | "string" | "keyword" | "number";
}

const KEYWORDS =
  "False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|" +
  "global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield|match|case";
const TOKEN = new RegExp(
  [
    "(?<comment>#[^\\n]*)",
    '(?<string>[rbfuRBFU]{0,2}(?:"""[\\s\\S]*?(?:"""|$)|\'\'\'[\\s\\S]*?(?:\'\'\'|$)|"(?:\\\\.|[^"\\\\\\n])*"?|\'(?:\\\\.|[^\'\\\\\\n])*\'?))',
    `(?<keyword>\\b(?:${KEYWORDS})\\b)`,
    "(?<number>\\b\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?\\b)",
    "\\w+",
  ].join("|"),
  "g",
);
/** Above this many characters, code is shown without colour. */
const LONGEST = 100_000;

export function tokens(code: string): Token[] {
  const found: Token[] = [];
  if (code.length > LONGEST) {
    return found;
  }
  for (const match of code.matchAll(TOKEN)) {
    const kind = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0];
    if (kind !== undefined) {
      found.push({ start: match.index, end: match.index + match[0].length, kind: kind as Token["kind"] });
    }
  }
  return found;
}
