import { Link, useLocation } from "@tanstack/react-router";
import type { LinkProps } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

export type Tab = { readonly title: string; readonly link: LinkProps };

/** Pages beside each other; each has an address of its own. */
export function Tabs({ tabs, label }: { readonly tabs: readonly Tab[]; readonly label: string }) {
  const nav = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  useEffect(() => {
    // Where there is little room, the one that is open may lie beside what is seen.
    const open = nav.current?.querySelector(`a[href="${CSS.escape(pathname)}"]`);
    open?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [pathname]);
  return (
    <nav ref={nav} aria-label={label} className="-mx-1 flex gap-1 overflow-x-auto border-b border-line px-1">
      {tabs.map(({ title, link }) => (
        <Link
          key={title}
          activeOptions={{ exact: true, includeSearch: false }}
          {...link}
          className="border-b-2 border-transparent px-3 py-2 font-medium whitespace-nowrap text-ink-soft hover:text-ink"
          activeProps={{ className: "!border-accent !text-ink", "aria-current": "page" }}
        >
          {title}
        </Link>
      ))}
    </nav>
  );
}
