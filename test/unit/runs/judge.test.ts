import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import { Judge } from "../../../src/runs/judge.ts";
import type { JudgeParts } from "../../../src/runs/judge.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "lease.one-judge",
  "one who looks for the dead and has to wait is not joined by others",
  async () => {
    let judgements = 0;
    let judged = Promise.withResolvers<number>();
    const recover = (): Promise<number> => {
      judgements += 1;
      return judged.promise;
    };
    const store = { claims: { recover } } as unknown as JudgeParts["store"];
    const judge = new Judge({ store, log: createLog("silent"), owner: "a" });
    const first = judge.judge();
    await judge.judge();
    expect(judgements).toBe(1);
    judged.reject(new AppError("storage_unavailable"));
    await first;
    judged = Promise.withResolvers();
    judged.resolve(0);
    await judge.judge();
    expect(judgements).toBe(2);
  },
);
