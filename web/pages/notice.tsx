import type { ReactNode } from "react";
import { useTitle } from "../parts/title.ts";

/** A page before the dashboard that only says something. */
export function Notice({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  useTitle(title);
  return (
    <main className="flex min-h-screen items-center justify-center p-4">
      <div className="w-full max-w-sm rounded-xl border border-line bg-surface p-6">
        <img src="/mark.svg" alt="Millrace" className="mb-4 size-9" />
        <h1 className="text-[1.3rem] font-semibold">{title}</h1>
        <div className="mt-1 break-words text-ink-soft">{children}</div>
      </div>
    </main>
  );
}
