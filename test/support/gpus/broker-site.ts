import { type Claim, GpuBroker } from "../../../src/host/gpus/broker.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { Gpu } from "../../../src/model/gpu.ts";
import type { Matches } from "../../../src/host/gpus/room.ts";
import { HandClock } from "../clocks.ts";
import { madeGpu, matches, PlayedGpus, type PlayedReplica, PlayedTenant, quiet } from "./played-gpus.ts";

type Options = {
  matches?: Matches;
  holdMs?: number;
  sharesAcrossProjects?: boolean;
  onExcess?: (claim: Claim) => void;
};

/** A broker whose GPUs, apps and clock a test plays. */
export function site(gpus: readonly Gpu[] = [madeGpu(0)], options: Options = {}) {
  const source = new PlayedGpus(gpus);
  const clock = new HandClock();
  const lines: string[] = [];
  const log = createLog("warn", { write: (line) => lines.push(line) });
  const { parentOf } = source;
  const broker = new GpuBroker({ source, parentOf, clock, log, matches, holdMs: 0, ...options });
  const app = (name: string, projectId?: string) => new PlayedTenant(broker, clock, name, projectId);
  const pass = async (ms: number): Promise<void> => {
    // In steps: what a timer starts may set the next.
    for (let left = ms; left > 0; left -= 100) {
      clock.advance(Math.min(left, 100));
      await quiet();
    }
  };
  /** Stops a replica, whose process and memory are gone at once. */
  const end = async (replica: PlayedReplica): Promise<void> => {
    replica.tenant.stop(replica);
    replica.tenant.ends(replica, source);
    await quiet();
  };
  return { source, clock, broker, lines, app, pass, end };
}

export const uuidsOf = ({ grant }: PlayedReplica): string[] | undefined =>
  grant?.gpus.map(({ uuid }) => uuid);
