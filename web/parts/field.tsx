import { useId } from "react";
import type { InputHTMLAttributes, ReactNode, SelectHTMLAttributes, TextareaHTMLAttributes } from "react";
import { classes } from "./classes.ts";

const BOX =
  "w-full rounded-md border border-line-strong bg-surface px-2.5 text-ink disabled:opacity-60 aria-invalid:border-bad";

type Labelled = { readonly label: ReactNode; readonly hint?: ReactNode; readonly error?: string | undefined };

function Frame({
  id,
  label,
  hint,
  error,
  children,
}: Labelled & { readonly id: string; readonly children: ReactNode }) {
  return (
    <div className="min-w-0">
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      {children}
      {error ? (
        <p id={`${id}-error`} role="alert" className="mt-1 whitespace-pre-wrap text-bad">
          {error}
        </p>
      ) : (
        hint !== undefined && <p className="mt-1 text-[0.9rem] text-ink-faint">{hint}</p>
      )}
    </div>
  );
}

/** A line to fill in, with its label, a hint, and what is wrong with it. */
export function Field({
  label,
  hint,
  error,
  className,
  ...rest
}: Labelled & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId();
  return (
    <Frame id={id} label={label} hint={hint} error={error}>
      <input
        id={id}
        aria-invalid={error ? true : undefined}
        aria-describedby={error ? `${id}-error` : undefined}
        className={classes(BOX, "h-8.5", className)}
        {...rest}
      />
    </Frame>
  );
}

/** Several lines to fill in. */
export function TextField({
  label,
  hint,
  error,
  className,
  ...rest
}: Labelled & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  const id = useId();
  return (
    <Frame id={id} label={label} hint={hint} error={error}>
      <textarea
        id={id}
        aria-invalid={error ? true : undefined}
        className={classes(BOX, "py-1.5 font-mono text-[0.9rem]", className)}
        {...rest}
      />
    </Frame>
  );
}

/** One of a few. */
export function Choice({
  label,
  hint,
  error,
  className,
  children,
  ...rest
}: Labelled & SelectHTMLAttributes<HTMLSelectElement>) {
  const id = useId();
  return (
    <Frame id={id} label={label} hint={hint} error={error}>
      <select id={id} className={classes(BOX, "h-8.5", className)} {...rest}>
        {children}
      </select>
    </Frame>
  );
}
