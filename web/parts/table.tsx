import type { ReactNode } from "react";
import { classes } from "./classes.ts";

type Column = {
  readonly title: string;
  readonly align?: "left" | "right";
  /** Left out where there is little room. */
  readonly isMinor?: boolean;
};

/** A table in a card; it scrolls sideways by itself where there is little room. */
export function Table({
  columns,
  label,
  children,
}: {
  readonly columns: readonly Column[];
  readonly label: string;
  readonly children: ReactNode;
}) {
  return (
    // A part that scrolls has to be reachable by keyboard.
    <div className="scrolls-sideways rounded-b-lg" tabIndex={0} role="region" aria-label={label}>
      <table className="w-full border-collapse text-left">
        <thead>
          <tr className="text-[0.82rem] text-ink-faint">
            {columns.map(({ title, align, isMinor }) => (
              <th
                key={title}
                scope="col"
                className={classes(
                  "h-9 px-4 font-medium whitespace-nowrap",
                  align === "right" && "text-right",
                  isMinor && "max-md:hidden",
                )}
              >
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Row({ children, className }: { readonly children: ReactNode; readonly className?: string }) {
  return <tr className={classes("border-t border-line hover:bg-sunken", className)}>{children}</tr>;
}

export function Cell({
  children,
  align,
  isMinor,
  className,
}: {
  readonly children?: ReactNode;
  readonly align?: "left" | "right";
  readonly isMinor?: boolean;
  readonly className?: string;
}) {
  return (
    <td
      className={classes(
        "h-11 px-4 whitespace-nowrap",
        align === "right" && "tabular text-right",
        isMinor && "max-md:hidden",
        className,
      )}
    >
      {children}
    </td>
  );
}
