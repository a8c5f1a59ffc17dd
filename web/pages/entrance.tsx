import { useState } from "react";
import type { FormEvent, ReactNode } from "react";
import { messageOf } from "../api/answer.ts";
import { Button } from "../parts/button.tsx";
import { useTitle } from "../parts/title.ts";

/** The form of every page before the dashboard: a title, some fields, one button. */
export function Entrance({
  title,
  intro,
  action,
  onSubmit,
  below,
  children,
}: {
  readonly title: string;
  readonly intro: ReactNode;
  readonly action: string;
  readonly onSubmit: () => Promise<void>;
  /** Another way, below the button. */
  readonly below?: ReactNode;
  readonly children?: ReactNode;
}) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useTitle(title);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    onSubmit()
      .catch((reason: unknown) => setError(messageOf(reason)))
      .finally(() => setBusy(false));
  };
  return (
    <main className="flex min-h-screen items-center justify-center p-4">
      <form onSubmit={submit} className="w-full max-w-sm rounded-xl border border-line bg-surface p-6">
        <img src="/mark.svg" alt="Millrace" className="mb-4 size-9" />
        <h1 className="text-[1.3rem] font-semibold">{title}</h1>
        <div className="mt-1 mb-5 text-ink-soft">{intro}</div>
        <div className="flex flex-col gap-3.5">
          {children}
          {error !== null && (
            <p
              role="alert"
              className="rounded-md bg-bad-soft px-3 py-2 break-words whitespace-pre-wrap text-bad"
            >
              {error}
            </p>
          )}
          <Button type="submit" look="primary" isBusy={isBusy}>
            {action}
          </Button>
          {below}
        </div>
      </form>
    </main>
  );
}
