/** Dark or light: what the system asks for, unless the reader chose. */

const KEY = "mappa-viewer-theme";

export function applyTheme(): void {
  const chosen = read();
  if (chosen !== null) {
    document.documentElement.style.colorScheme = chosen;
  }
}

export function toggleTheme(): void {
  const dark = document.documentElement.style.colorScheme || (systemIsDark() ? "dark" : "light");
  const next = dark === "dark" ? "light" : "dark";
  document.documentElement.style.colorScheme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // a browser that keeps nothing for this page: the choice lasts until it is closed
  }
}

function systemIsDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function read(): "dark" | "light" | null {
  try {
    const found = localStorage.getItem(KEY);
    return found === "dark" || found === "light" ? found : null;
  } catch {
    return null;
  }
}
