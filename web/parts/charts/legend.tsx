import type { Series } from "./series.ts";

/** Which colour is what. */
export function Legend({ series }: { readonly series: readonly Series[] }) {
  return (
    <ul className="mb-3 flex flex-wrap gap-x-4 gap-y-1 text-[0.86rem] text-ink-soft">
      {series.map(({ name, title, colour }) => (
        <li key={name} className="flex items-center gap-1.5">
          <span aria-hidden="true" className="size-2 rounded-xs" style={{ background: colour }} />
          {title}
        </li>
      ))}
    </ul>
  );
}
