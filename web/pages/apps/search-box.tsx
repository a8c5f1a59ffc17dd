import { useEffect, useRef } from "react";

/** A box that narrows a list; its text is in the address. */
export function SearchBox({
  label,
  text,
  onChange,
}: {
  readonly label: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
}) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const element = input.current;
    // Not under the hands of somebody who types: the address comes after the keys.
    if (element && element !== document.activeElement) element.value = text;
  }, [text]);
  return (
    <input
      ref={input}
      type="search"
      aria-label={label}
      placeholder={`${label}…`}
      defaultValue={text}
      onChange={({ target }) => onChange(target.value)}
      className="h-8.5 w-64 max-w-full rounded-md border border-line-strong bg-surface px-2.5"
    />
  );
}
