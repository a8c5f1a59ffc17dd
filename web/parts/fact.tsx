import type { ReactNode } from "react";

/** One thing to know, with its name above it; in a `dl`. */
export function Fact({
  title,
  isWide,
  children,
}: {
  readonly title: string;
  readonly isWide?: boolean;
  readonly children: ReactNode;
}) {
  return (
    <div className={isWide ? "col-span-full min-w-0" : "min-w-0"}>
      <dt className="text-[0.86rem] text-ink-faint">{title}</dt>
      <dd className="tabular mt-0.5 min-h-5.5 break-words">{children}</dd>
    </div>
  );
}
