import { Link } from "@tanstack/react-router";
import type { LinkProps } from "@tanstack/react-router";
import { DEFAULT_RANGE, RANGES } from "../../api/figures.ts";
import type { RangeName } from "../../api/figures.ts";
import { PICKER, pickedOrNot } from "../../parts/picker.tsx";

const NAMES = Object.keys(RANGES) as RangeName[];

/** How far back one looks; each choice is an address. */
export function RangePicker({ range, link }: { readonly range: RangeName; readonly link: LinkProps }) {
  return (
    <nav aria-label="Time range" className={PICKER}>
      {NAMES.map((name) => (
        <Link
          key={name}
          {...link}
          search={name === DEFAULT_RANGE ? {} : { range: name }}
          replace
          resetScroll={false}
          activeOptions={{ exact: true }}
          className={pickedOrNot(name === range)}
        >
          {RANGES[name].title}
        </Link>
      ))}
    </nav>
  );
}
