import { expect } from "vitest";
import { judgeServer } from "../../../bench/server-targets.ts";
import type { TrafficFigures } from "../../../bench/server-traffic.ts";
import { verifies } from "../../verifies.ts";

/** Of a pass-through 100 everywhere, and of Millrace what is given. */
function figures(rate: number, growthBytes: number, socketBytes: number): TrafficFigures {
  const body = (bytesPerSecond: number) => [{ bytesPerSecond, cpuMs: 1, growthBytes }];
  const bodies = { fastapi: [], passthrough: body(100), millrace: body(rate) };
  const frames = (framesPerSecond: number) => [{ framesPerSecond, cpuUs: 1 }];
  const idle = [{ residentBytes: socketBytes, usedBytes: socketBytes }];
  return {
    rounds: 1,
    transfers: { upload: bodies, download: bodies },
    echoes: { fastapi: [], passthrough: frames(100), millrace: frames(rate) },
    streams: null,
    idle: { fastapi: [], passthrough: idle, millrace: idle },
    problem: null,
  };
}

verifies("bench.verdicts", "what passes through a server app is held against its targets", () => {
  const met = (...given: Parameters<typeof figures>) =>
    judgeServer([], figures(...given)).map(({ isMet }) => isMet);
  // Calls and streams were not measured.
  expect(met(85, 32e6, 40e3)).toEqual([null, null, true, true, true, true, true, true, null]);
  expect(met(84, 33e6, 41e3)).toEqual([null, null, false, false, false, false, true, false, null]);
  expect(met(69, 0, 0)[6]).toBe(false);
});
