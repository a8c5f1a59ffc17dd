import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();

/** Changes between light and dark, and remembers it. `theme.js` takes it up before the first paint. */
export function toggleTheme(): void {
  const isDark = document.documentElement.classList.toggle("dark");
  localStorage.setItem("theme", isDark ? "dark" : "light");
  for (const listener of listeners) listener();
}

export function useIsDark(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => document.documentElement.classList.contains("dark"),
  );
}
