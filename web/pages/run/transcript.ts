import { useEffect, useState } from "react";
import { followRun } from "../../api/events.ts";
import { MessageLog, useMessages } from "../../api/message-log.ts";
import type { Messages } from "../../api/message-log.ts";
import type { RunIds } from "../../api/runs.ts";

/** What a run yielded, as far as it was read. */
export type Transcript = {
  readonly messages: Messages;
  /** When the first chunk came; null where nobody was there to see it. */
  readonly firstChunkMs: number | null;
  /** Some of it is not stored. */
  readonly isTruncated: boolean;
  /** There is no more to come. */
  readonly isRead: boolean;
  readonly error: unknown;
};

/** A first chunk that comes sooner after one looks may have been there before. */
const SEEN_MS = 300;

/** Follows what a run yields. Of one that is over the beginning is read, of one that runs the end is kept. */
export function useTranscript(
  { projectId, appName, runId }: RunIds,
  options: { readonly isWanted: boolean; readonly isLive: boolean; readonly onEnd: () => void },
): Transcript {
  const { isWanted, isLive, onEnd } = options;
  const [log] = useState(() => new MessageLog());
  const [firstChunkMs, setFirstChunk] = useState<number | null>(null);
  const [isTruncated, setTruncated] = useState(false);
  const [isRead, setRead] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (!isWanted) return undefined;
    log.clear();
    const aborter = new AbortController();
    const lookedAtMs = Date.now();
    const take = ({
      event,
      data,
      id,
    }: {
      event: string | null;
      data: string;
      id: string | null;
    }): boolean => {
      if (event === "truncated") {
        setTruncated(true);
        return true;
      }
      // The record has it too.
      if ((event === "progress" || event === "queue") && id === null) return true;
      const nowMs = Date.now();
      if (id === "1" && isLive && nowMs - lookedAtMs > SEEN_MS) setFirstChunk(nowMs);
      log.add(event, data);
      return isLive || !log.isFull;
    };
    const finish = (): void => {
      // Who has left has not read to the end.
      if (aborter.signal.aborted) return;
      log.flush();
      setRead(true);
      onEnd();
    };
    followRun({ projectId, appName, runId }, take, aborter.signal).then(finish).catch(setError);
    return () => aborter.abort();
  }, [projectId, appName, runId, isWanted, isLive, onEnd, log]);
  return { messages: useMessages(log), firstChunkMs, isTruncated, isRead, error };
}
