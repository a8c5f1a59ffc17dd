import { expect } from "vitest";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "run.sync.body",
  "a sync call answers run_id, result and run_time_ms, compact, and nothing else",
  async () => {
    const test = await testService({ hello: { main: 'def run(name="x"):\n    return {"m": name}\n' } });
    const answer = await test.call("hello", { name: "Ada" });
    expect(answer.status).toBe(200);
    expect(answer.text).toMatch(
      /^\{"run_id":"[0-9a-f-]{36}","result":\{"m":"Ada"\},"run_time_ms":[0-9.]+\}$/,
    );
  },
);
