import { useEffect, useRef, useState } from "react";

/** An answer as far as it has come; its total time is null until it is whole. */
type Coming = { readonly totalMs: number | null };

export type OneCall<Answer> = {
  readonly answer: Answer | null;
  readonly error: unknown;
  readonly isBusy: boolean;
  /** Makes a call in place of the one before; `make` tells what comes of it, and ends with it. */
  readonly begin: (make: (onAnswer: (answer: Answer) => void, signal: AbortSignal) => Promise<void>) => void;
  /** Gives it up; its run is cancelled. */
  readonly stop: () => void;
};

/** One call at a time, and what came back; who leaves the page gives it up. */
export function useOneCall<Answer extends Coming>(): OneCall<Answer> {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const aborter = useRef<AbortController | null>(null);
  useEffect(() => () => aborter.current?.abort(), []);
  const begin: OneCall<Answer>["begin"] = (make) => {
    aborter.current?.abort();
    const own = new AbortController();
    aborter.current = own;
    setAnswer(null);
    setError(null);
    setBusy(true);
    make(setAnswer, own.signal)
      .catch((reason: unknown) => {
        if (!own.signal.aborted) setError(reason);
      })
      .finally(() => {
        if (aborter.current === own) setBusy(false);
      });
  };
  const stop = (): void => {
    aborter.current?.abort();
    setAnswer((last) => last && { ...last, isStopped: last.totalMs === null });
  };
  return { answer, error, isBusy, begin, stop };
}
