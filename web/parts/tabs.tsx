import { Link } from "@tanstack/react-router";
import type { LinkProps } from "@tanstack/react-router";

export type Tab = { readonly title: string; readonly link: LinkProps };

/** Pages beside each other; each has an address of its own. */
export function Tabs({ tabs, label }: { readonly tabs: readonly Tab[]; readonly label: string }) {
  return (
    <nav aria-label={label} className="-mx-1 flex gap-1 overflow-x-auto border-b border-line px-1">
      {tabs.map(({ title, link }) => (
        <Link
          key={title}
          {...link}
          activeOptions={{ exact: true, includeSearch: false }}
          className="border-b-2 border-transparent px-3 py-2 font-medium whitespace-nowrap text-ink-soft hover:text-ink"
          activeProps={{ className: "!border-accent !text-ink", "aria-current": "page" }}
        >
          {title}
        </Link>
      ))}
    </nav>
  );
}
