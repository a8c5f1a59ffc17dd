import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import { Dispatcher, type DispatcherParts } from "../../../src/runs/dispatcher.ts";
import { verifies } from "../../verifies.ts";

verifies("lease.apart", "only one recovery of dead nodes runs at a time", async () => {
  let recoveries = 0;
  let recovered = Promise.withResolvers<number>();
  const recover = (): Promise<number> => {
    recoveries += 1;
    return recovered.promise;
  };
  const parts = { store: { claims: { recover } }, log: createLog("silent"), owner: "a" };
  const dispatcher = new Dispatcher(parts as unknown as DispatcherParts);
  const first = dispatcher.recoverDead(0);
  await dispatcher.recoverDead(0);
  expect(recoveries).toBe(1);
  recovered.reject(new AppError("storage_unavailable"));
  await first;
  recovered = Promise.withResolvers();
  recovered.resolve(0);
  await dispatcher.recoverDead(0);
  expect(recoveries).toBe(2);
});
