import { expect } from "vitest";
import { GpuBroker } from "../../../../src/host/gpus/broker.ts";
import { withoutPlace } from "../../../../src/host/gpus/minimums.ts";
import { remembering } from "../../../../src/host/gpus/source.ts";
import { createLog } from "../../../../src/kit/log.ts";
import { HandClock } from "../../../support/clocks.ts";
import {
  madeGpu,
  matches,
  PlayedGpus,
  PlayedTenant,
  quiet,
  wishFor,
} from "../../../support/gpus/played-gpus.ts";
import { verifies } from "../../../verifies.ts";

verifies("gpu.order", "thousands of replicas of one app that wait are compared as one", async () => {
  let compared = 0;
  const counting: typeof matches = (asked, gpu) => {
    compared += 1;
    return matches(asked, gpu);
  };
  const source = new PlayedGpus([madeGpu(0)]);
  const clock = new HandClock();
  const log = createLog("silent");
  const broker = new GpuBroker({ source, clock, log, matches: remembering(counting), holdMs: 0 });
  const app = (name: string) => new PlayedTenant(broker, clock, name);
  const holder = app("one").start(wishFor(null));
  await quiet();
  const [wish, two] = [wishFor(null), app("two")];
  const waiting = Array.from({ length: 2_000 }, () => two.start(wish));
  await quiet();
  expect(compared).toBeGreaterThan(0);
  compared = 0;
  clock.advance(100);
  await quiet();
  expect(waiting.map(({ claim }) => claim.obstacle())).toEqual(
    waiting.map(() => "GPUs: 1 of any model is wanted, none is free; app one is in use"),
  );
  expect(compared).toBeLessThan(20);
  holder.tenant.stop(holder);
  holder.tenant.ends(holder, source);
  await quiet();
  expect(waiting.map(({ grant }) => grant !== null)).toEqual(waiting.map((_, place) => place === 0));
});

verifies("gpu.minimums", "thousands of small replicas and long lists of models are compared at once", () => {
  const gpus = Array.from({ length: 8 }, (_, index) => madeGpu(index));
  const models = [...Array.from({ length: 31 }, (_, index) => `X${index}`), "H100"];
  let compared = 0;
  const counting: typeof matches = (asked, gpu) => {
    compared += 1;
    return matches(asked, gpu);
  };
  const rules = { sharesAcrossProjects: false, matches: counting };
  const minimum = (app: string, gb: number, replicas = 2_000) => {
    return { app, projectId: "p-one", wish: wishFor(gb, models), replicas };
  };
  const small = ["a", "b", "c"].map((app) => minimum(app, 0.1));
  expect(withoutPlace(small, gpus, rules)).toEqual([]);
  const tooMany = [minimum("large", 60, 8), ...small];
  expect(withoutPlace(tooMany, gpus, rules).map(({ app }) => app)).toEqual(["a", "b", "c"]);
  expect(compared).toBeLessThanOrEqual(7 * models.length * gpus.length);
});
