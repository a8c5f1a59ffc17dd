import type { ReactNode } from "react";
import { useTitle } from "./title.ts";

/** A page's head and body; its title is the tab's too. */
export function Page({
  title,
  subtitle,
  actions,
  children,
}: {
  readonly title: string;
  readonly subtitle?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}) {
  useTitle(title);
  return (
    <div className="mx-auto w-full max-w-[110rem] px-4 py-5 md:px-7">
      <header className="mb-5 flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <h1 className="text-[1.45rem] leading-tight font-semibold break-words">{title}</h1>
          {subtitle !== undefined && <div className="mt-0.5 text-ink-soft">{subtitle}</div>}
        </div>
        <div className="flex flex-wrap items-center gap-2">{actions}</div>
      </header>
      <div className="flex flex-col gap-4">{children}</div>
    </div>
  );
}
