import { Link } from "@tanstack/react-router";
import type { LinkProps } from "@tanstack/react-router";
import { DEFAULT_RANGE, RANGES } from "../../api/figures.ts";
import type { RangeName } from "../../api/figures.ts";
import { classes } from "../../parts/classes.ts";

const NAMES = Object.keys(RANGES) as RangeName[];

/** How far back one looks; each choice is an address. */
export function RangePicker({ range, link }: { readonly range: RangeName; readonly link: LinkProps }) {
  return (
    <nav aria-label="Time range" className="flex rounded-md border border-line-strong bg-surface p-0.5">
      {NAMES.map((name) => (
        <Link
          key={name}
          {...link}
          search={name === DEFAULT_RANGE ? {} : { range: name }}
          replace
          resetScroll={false}
          activeOptions={{ exact: true }}
          className={classes(
            "tabular rounded px-2.5 py-1 text-[0.92rem] whitespace-nowrap",
            name === range ? "bg-accent-soft font-medium text-accent" : "text-ink-soft hover:text-ink",
          )}
        >
          {RANGES[name].title}
        </Link>
      ))}
    </nav>
  );
}
