import { Icon } from "./icons.tsx";
import { toggleTheme, useIsDark } from "./theme.ts";

/** Changes between light and dark colours. */
export function ThemeButton() {
  const isDark = useIsDark();
  return (
    <button
      type="button"
      onClick={toggleTheme}
      aria-label={isDark ? "Use light colours" : "Use dark colours"}
      className="rounded-md p-1.5 text-ink-soft hover:bg-sunken hover:text-ink"
    >
      <Icon name={isDark ? "sun" : "moon"} className="size-4.5" />
    </button>
  );
}
