import { classes } from "./classes.ts";

/** How every choice of a few looks, be its parts buttons or links. */
export const PICKER = "flex rounded-md border border-line-strong bg-surface p-0.5";

/** How one of them looks. */
export function pickedOrNot(isPicked: boolean): string {
  return classes(
    "tabular rounded px-2.5 py-1 text-[0.92rem] whitespace-nowrap",
    isPicked ? "bg-accent-soft font-medium text-accent" : "text-ink-soft hover:text-ink",
  );
}

/** One of a few, all in sight. */
export function Picker<Name extends string>({
  label,
  names,
  titles,
  picked,
  onPick,
}: {
  readonly label: string;
  readonly names: readonly Name[];
  readonly titles: Readonly<Record<Name, string>>;
  readonly picked: Name;
  readonly onPick: (name: Name) => void;
}) {
  return (
    <span role="group" aria-label={label} className={PICKER}>
      {names.map((name) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === picked}
          onClick={() => onPick(name)}
          className={pickedOrNot(name === picked)}
        >
          {titles[name]}
        </button>
      ))}
    </span>
  );
}
