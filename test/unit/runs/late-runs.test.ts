import { expect, onTestFinished } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { LateRuns } from "../../../src/runs/late-runs.ts";
import { HandClock } from "../../support/clocks.ts";
import { Tail } from "../../support/explain.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

type Parts = ConstructorParameters<typeof LateRuns>[0];
type Limits = Parts["store"]["limits"];

verifies(
  "terms.ttl",
  "a run that cannot be ended keeps no other from its end, and is looked at again",
  async () => {
    const clock = new HandClock();
    const at = clock.now() - 1;
    const row = (id: string, isOver = false) => ({ appNumber: 1, id, at, isOver });
    const settled: Parameters<Limits["settle"]>[0][number][] = [];
    const looked: string[] = [];
    const limits: Limits = {
      passed: async () =>
        settled.length > 0 ? [] : [row("broken"), row("over", true), row("late"), row("live")],
      settle: async (seen) => void settled.push(...seen),
    };
    const endLate = async ({ id }: { readonly id: string }): Promise<boolean> => {
      looked.push(id);
      if (id === "broken") throw new Error("its row is damaged");
      return id === "late";
    };
    const log = createLog("info", new Tail());
    const store = { limits } as Parts["store"];
    const lateRuns = new LateRuns({ store, clock, log, canceller: { endLate } });
    onTestFinished(() => lateRuns.stop());
    clock.advance(1_000);
    await until("they are settled", () => settled.length > 0);
    const again = clock.now() + 60_000;
    expect(settled.map((seen) => [seen.id, seen.again])).toEqual([
      ["broken", again],
      ["over", null],
      ["late", null],
      ["live", again],
    ]);
    expect(looked).toEqual(["broken", "late", "live"]);
  },
);
