// Light or dark: as the system has it, unless the person has chosen.

import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const KEY = "threadline.theme";
const listeners = new Set<() => void>();

export function theme(): Theme {
  const chosen = localStorage.getItem(KEY);
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export function chooseTheme(chosen: Theme): void {
  if (chosen === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosen);
  applyTheme();
  for (const listener of listeners) listener();
}

/** Shows the page in the theme that is chosen. */
export function applyTheme(): void {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    // Another tab has chosen.
    const changed = () => (applyTheme(), listener());
    addEventListener("storage", changed);
    return () => (listeners.delete(listener), removeEventListener("storage", changed));
  }, theme);
}
