import { FrameReader } from "../../src/replicas/frame-reader.ts";
import type { FrameEvents } from "../../src/replicas/frame-reader.ts";

/** A reader that takes any frame. */
export function anyFrames(onFrame: FrameEvents["onFrame"]): FrameReader {
  return new FrameReader({ admit: () => {}, onFrame });
}
