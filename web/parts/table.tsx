import type { CSSProperties, ReactNode } from "react";
import { classes } from "./classes.ts";

/** Which way a column is sorted. */
type SortOrder = "ascending" | "descending";

type Column = {
  readonly title: string;
  /** Explains the title when the pointer is on it. */
  readonly hint?: string;
  /** Undefined: it cannot be sorted by. */
  readonly onSort?: () => void;
  readonly sorted?: SortOrder | undefined;
  readonly align?: "left" | "right";
  /** Left out where there is little room. */
  readonly isMinor?: boolean;
};

/** A table in a card. Where there is little room each row becomes a card, with the columns' titles beside the values. */
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
      <table className="cards-when-narrow w-full border-collapse text-left" style={titlesOf(columns)}>
        <thead>
          <tr className="text-[0.82rem] text-ink-faint">
            {columns.map(({ title, hint, align, isMinor, onSort, sorted }) => (
              <th
                key={title}
                scope="col"
                title={hint}
                aria-sort={sorted}
                className={classes(
                  "h-9 px-4 font-medium whitespace-nowrap",
                  align === "right" && "text-right",
                  isMinor && "max-md:hidden",
                )}
              >
                {onSort ? <SortButton title={title} sorted={sorted} onSort={onSort} /> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** The titles for the style sheet, which puts them beside the values. */
function titlesOf(columns: readonly Column[]): CSSProperties {
  return Object.fromEntries(
    columns.map(({ title }, index) => [`--column-${index + 1}`, JSON.stringify(title)]),
  );
}

function SortButton({
  title,
  sorted,
  onSort,
}: {
  readonly title: string;
  readonly sorted: SortOrder | undefined;
  readonly onSort: () => void;
}) {
  return (
    <button
      type="button"
      onClick={onSort}
      className={classes("relative rounded font-medium hover:text-ink", sorted && "text-ink")}
    >
      {title}
      <span aria-hidden="true" className="absolute left-full ml-0.5">
        {sorted === "ascending" ? "↑" : sorted === "descending" ? "↓" : ""}
      </span>
    </button>
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
