import { expect } from "vitest";
import { isFinal, RUN_STATES, WEBHOOK_STATES } from "../../../src/model/run.ts";
import { verifies } from "../../verifies.ts";

verifies("run-record.states", "a run has five states, three of them final", () => {
  expect(RUN_STATES).toEqual(["queued", "running", "success", "failure", "cancelled"]);
  expect(RUN_STATES.filter(isFinal)).toEqual(["success", "failure", "cancelled"]);
});

verifies("run-record.webhook-states", "a webhook has four states", () => {
  expect(WEBHOOK_STATES).toEqual(["none", "pending", "delivered", "failed"]);
});
