import type { ReactNode } from "react";
import { classes } from "./classes.ts";

type Props = {
  readonly title?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
  readonly className?: string;
  /** Without room around the content, for tables and charts that have their own. */
  readonly isFlush?: boolean;
};

/** A surface with something on it. */
export function Card({ title, actions, children, className, isFlush }: Props) {
  return (
    <section className={classes("min-w-0 rounded-lg border border-line bg-surface", className)}>
      {(title !== undefined || actions !== undefined) && (
        <header className="flex min-h-11 flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-1.5">
          <h2 className="font-semibold">{title}</h2>
          <div className="flex items-center gap-2">{actions}</div>
        </header>
      )}
      <div className={isFlush ? undefined : "p-4"}>{children}</div>
    </section>
  );
}
