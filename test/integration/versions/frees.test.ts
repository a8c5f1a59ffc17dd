import { existsSync } from "node:fs";
import { expect } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "deploy.delete.frees",
  "what could not be removed with its app is removed later, without a restart",
  async () => {
    let isAway = false;
    let refused = 0;
    const list =
      (store: Store): Store["versions"]["list"] =>
      async (appNumber) => {
        if (!isAway) return await store.versions.list(appNumber);
        refused++;
        throw new AppError("storage_unavailable");
      };
    const aroundStore = (store: Store): Store => ({
      ...store,
      versions: { ...store.versions, list: list(store) },
    });
    const clock = new SkippingClock();
    const test = await testService({ app: { main: "def run(): pass" } }, {}, { aroundStore, clock });
    const { baseUrl, owner } = test.service;
    const bundle = test.bundleDir("app");
    isAway = true;
    const deleted = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/apps/${owner.projectId}-app`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${owner.token}` },
    });
    expect(deleted.status).toBe(200);
    await until("its removal has failed", () => refused > 0);
    expect(existsSync(bundle)).toBe(true);
    isAway = false;
    await until("it is gone", () => {
      clock.skip(10_000);
      return !existsSync(bundle);
    });
  },
);
