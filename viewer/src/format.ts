/** Numbers and hidden characters as readers see them. */

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;

/** Text whose control and direction characters are spelled out: `\u202e` cannot turn a line around. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function points(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toFixed(1);
}

export function signed(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

export function percent(value: number): string {
  return `${Math.round(100 * value)} %`;
}

export function seconds(value: number): string {
  if (value < 120) {
    return `${value < 10 ? value.toFixed(2) : Math.round(value)} s`;
  }
  return value < 7200 ? `${Math.round(value / 60)} min` : `${(value / 3600).toFixed(1)} h`;
}

export function bytes(value: number): string {
  if (value < 1000) {
    return `${value} B`;
  }
  return value < 1e6 ? `${(value / 1e3).toFixed(1)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}

export function figure(value: number): string {
  const size = Math.abs(value);
  if (value === 0) {
    return "0";
  }
  return size >= 1000 || size < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

export function plural(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
