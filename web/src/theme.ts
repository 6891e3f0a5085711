import { useSyncExternalStore } from "react";

export type Theme = "auto" | "light" | "dark";

const KEY = "rhumb.theme";
const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const listeners = new Set<() => void>();

function kept(): Theme {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "auto";
}

let theme: Theme = "auto";

function show(next: Theme): void {
  theme = next;
  if (next === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = next;
}

/** Before the first render, so that no page flashes in the wrong colours. */
export function startTheme(): void {
  show(kept());
  // Charts read colours from the style sheet; they must hear when the system changes its mind.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => listeners.forEach((listener) => listener()));
}

export function nextTheme(): void {
  show(NEXT[theme]);
  localStorage.setItem(KEY, theme);
  listeners.forEach((listener) => listener());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

/** Which of the two is on the screen. */
export function useShade(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () =>
    theme === "auto" ? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") : theme,
  );
}
