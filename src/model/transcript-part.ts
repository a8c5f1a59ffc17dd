import type { RunKey } from "./run.ts";

/** A piece of a run's transcript: chunks of consecutive numbers (from 1), in the transcript's own framing. */
export type TranscriptPart = {
  readonly firstEvent: number;
  readonly eventCount: number;
  readonly bytes: Uint8Array;
};

/** A piece of a transcript, with the run that it belongs to. */
export type RunPart = RunKey & TranscriptPart;
