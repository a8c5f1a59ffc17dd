import { useEffect, useRef, useState } from "react";
import { Field } from "./field.tsx";

/** After the last key press: before that, more may be typed. */
const TYPING_MS = 400;

/** A field whose text counts once it was typed. */
export function TypedField({
  label,
  placeholder,
  width,
  text: given,
  isRight = () => true,
  problem,
  onChange,
}: {
  readonly label: string;
  readonly placeholder: string;
  readonly width: string;
  readonly text: string;
  /** Whether the list can be narrowed by that; until then nothing changes. */
  readonly isRight?: (text: string) => boolean;
  /** What is wrong with a text that is not. */
  readonly problem?: string;
  readonly onChange: (text: string) => void;
}) {
  const [text, setText] = useState(given);
  const [last, setLast] = useState(given);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  // Changed by another way than this field.
  if (last !== given) {
    setLast(given);
    if (text.trim() !== given) setText(given);
  }
  const type = (typed: string): void => {
    const wanted = typed.trim();
    setText(typed);
    clearTimeout(timer.current);
    if (wanted === "" || isRight(wanted)) timer.current = setTimeout(() => onChange(wanted), TYPING_MS);
  };
  const isWrong = text.trim() !== "" && !isRight(text.trim());
  return (
    <div className={width}>
      <Field
        label={label}
        placeholder={placeholder}
        spellCheck={false}
        autoComplete="off"
        maxLength={200}
        aria-invalid={isWrong || undefined}
        title={isWrong ? problem : undefined}
        value={text}
        onChange={({ target }) => type(target.value)}
      />
    </div>
  );
}
