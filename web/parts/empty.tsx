import type { ReactNode } from "react";

/** What stands where there is nothing yet: says what would be here, and how it comes about. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="flex flex-col items-center px-6 py-12 text-center">
      <p className="text-[1.1rem] font-semibold">{title}</p>
      <div className="mt-1.5 w-full max-w-xl text-ink-soft">{children}</div>
    </div>
  );
}
