import { type Child } from "./processes.ts";
import { startStreamClient } from "./stream-client.ts";
import { streamProblemOf } from "./stream-job.ts";
import type { MillraceRunning } from "./subjects/millrace.ts";

/** What is measured without the service, and through it, round by round. */
export type Sides = { readonly alone: number[]; readonly served: number[] };

export const STREAMS = 256;
/** More than any measurement reads. */
const TOKENS = 10_000_000;
/** Until all streams have begun and are read evenly. */
const WARM_UP_MS = 4_000;
/** The streams do not end by themselves. */
const CUT_OFF = "stream without an end";

/** Reads all streams of a decoder at once; gives the messages per second of all together. */
export async function streamedRate(
  service: MillraceRunning,
  app: string,
  measureMs: number,
): Promise<number> {
  const client = startStreamClient();
  const { pid, headers } = service;
  const server = { url: service.callUrl(app), headers, pid, stop: service.stop };
  const round = await client.read(server, {
    streams: STREAMS,
    body: JSON.stringify({ n: TOKENS }),
    isGzip: false,
    window: { fromMs: WARM_UP_MS, toMs: WARM_UP_MS + measureMs },
    endWithinMs: 0,
  });
  await client.stop();
  const { [CUT_OFF]: _, ...errors } = round.errors;
  const problem = streamProblemOf({ ...round, errors });
  if (problem !== null) throw new Error(`the decoder's streams: ${problem}`);
  return round.messagesPerSecond;
}

/** The answer of code without a service to a line (`apps/…/alone.py`). */
export async function asked(alone: Child, line: string): Promise<unknown> {
  alone.send(line);
  return JSON.parse(await alone.nextLine());
}
