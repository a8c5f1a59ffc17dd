import { classes } from "./classes.ts";

/** Holds the place of something that is on its way, so that nothing jumps when it comes. */
export function Skeleton({ className }: { readonly className?: string }) {
  return (
    <span
      aria-hidden="true"
      className={classes(
        "block animate-[shimmer_1.6s_ease-in-out_infinite] rounded bg-line",
        className ?? "h-4 w-full",
      )}
    />
  );
}

/** Rows of a table that is on its way. */
export function SkeletonRows({ rows = 6, columns }: { readonly rows?: number; readonly columns: number }) {
  return (
    <>
      {Array.from({ length: rows }, (_, row) => (
        <tr key={row} className="border-t border-line">
          {Array.from({ length: columns }, (_, column) => (
            <td key={column} className="h-11 px-4">
              <Skeleton className={classes("h-3.5", column === 0 ? "w-32" : "w-16")} />
            </td>
          ))}
        </tr>
      ))}
    </>
  );
}
