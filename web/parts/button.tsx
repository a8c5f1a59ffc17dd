import type { ButtonHTMLAttributes, ReactNode } from "react";
import { classes } from "./classes.ts";

type Look = "plain" | "primary" | "danger" | "quiet";

const LOOKS: Record<Look, string> = {
  plain: "border-line-strong bg-surface text-ink hover:bg-sunken",
  primary: "border-transparent bg-accent text-accent-ink hover:opacity-90",
  danger: "border-transparent bg-bad text-white dark:text-black hover:opacity-90",
  quiet: "border-transparent text-ink-soft hover:bg-sunken hover:text-ink",
};

type Props = ButtonHTMLAttributes<HTMLButtonElement> & {
  readonly look?: Look;
  readonly size?: "normal" | "small";
  /** While it works it cannot be pressed again. */
  readonly isBusy?: boolean;
  readonly children: ReactNode;
};

/** Something to press. */
export function Button({
  look = "plain",
  size = "normal",
  isBusy,
  className,
  disabled,
  children,
  ...rest
}: Props) {
  return (
    <button
      type="button"
      disabled={disabled || isBusy}
      aria-busy={isBusy || undefined}
      className={classes(
        "inline-flex items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap select-none",
        "transition-colors disabled:cursor-not-allowed disabled:opacity-55",
        size === "small" ? "h-7 px-2 text-[0.86rem]" : "h-8.5 px-3",
        LOOKS[look],
        className,
      )}
      {...rest}
    >
      {children}
    </button>
  );
}
