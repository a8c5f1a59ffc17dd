import { Button } from "./button.tsx";

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
    <span role="group" aria-label={label} className="flex gap-1">
      {names.map((name) => (
        <Button
          key={name}
          size="small"
          look={name === picked ? "plain" : "quiet"}
          aria-pressed={name === picked}
          onClick={() => onPick(name)}
        >
          {titles[name]}
        </Button>
      ))}
    </span>
  );
}
