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
  themeChanged();
}

/** Shows the page in the chosen theme, from now on also in one that another tab chooses. */
export function followTheme(): void {
  addEventListener("storage", themeChanged);
  applyTheme();
}

function themeChanged(): void {
  applyTheme();
  for (const listener of listeners) listener();
}

function applyTheme(): void {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, theme);
}
