import { expect, test } from "vitest";
import {
  endRun,
  isFinal,
  makeRun,
  NOT_BEGUN,
  requireMove,
  RUN_MOVES,
  RUN_STATES,
  UNFINISHED,
  WEBHOOK_STATES,
  withoutEnd,
} from "../../../src/model/run.ts";
import type { RunMove, RunState } from "../../../src/model/run.ts";
import { readSources, withoutCommentLines } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

verifies("run-record.states", "a run has five states, three of them final", () => {
  expect(RUN_STATES).toEqual(["queued", "running", "success", "failure", "cancelled"]);
  expect(RUN_STATES.filter(isFinal)).toEqual(["success", "failure", "cancelled"]);
});

verifies("run-record.webhook-states", "a webhook has four states", () => {
  expect(WEBHOOK_STATES).toEqual(["none", "pending", "delivered", "failed"]);
});

const MOVES = Object.keys(RUN_MOVES) as RunMove[];

verifies(
  "design.run-moves",
  "a run goes from state to state as the table says, and never leaves its end",
  () => {
    const reached = (from: RunState) =>
      MOVES.filter((move) => RUN_MOVES[move].from === from).flatMap((move) => [...RUN_MOVES[move].to]);
    expect(Object.fromEntries(RUN_STATES.map((state) => [state, reached(state)]))).toEqual({
      queued: ["running", "failure", "cancelled"],
      running: ["success", "failure", "cancelled", "queued"],
      success: [],
      failure: [],
      cancelled: [],
    });
    expect(UNFINISHED).toEqual(["queued", "running"]);
  },
);

verifies("design.run-moves", "a move that the table does not have is refused", () => {
  const allowed = MOVES.flatMap((move) =>
    RUN_STATES.filter((state) => {
      try {
        requireMove(move, state);
        return true;
      } catch {
        return false;
      }
    }).map((state) => `${move} ${state}`),
  );
  const listed = MOVES.flatMap((move) => RUN_MOVES[move].to.map((state) => `${move} ${state}`));
  expect(allowed.toSorted()).toEqual(listed.toSorted());
  expect(() => requireMove("drop", "success")).toThrow("a run cannot drop to success");
});

verifies("design.run-moves", "no statement names a state by a bare number", () => {
  const bare = /\bstate"?(?:,|:)?\s*"?(?:=|<>|in|not in)?"?,?\s*\(?(?:\(eb\) => eb\.lit\()?\d/g;
  expect(
    'where("state", "=", 1) state = 0 state in (0, 1) state: 0 "state", "<>", (eb) => eb.lit(0)'.match(bare),
  ).toHaveLength(5);
  const store = [...readSources(["src/store"], [".ts"])].filter(([path]) => !path.includes("/schema/"));
  const found = store.flatMap(([path, text]) =>
    [...withoutCommentLines(text).matchAll(bare)].map(([match]) => `${path}: ${match}`),
  );
  expect(store.length).toBeGreaterThan(40);
  expect(found).toEqual([]);
});

test("a record is as far as its run has come, ended or not", () => {
  const origin = {
    id: "0197c3a0-7e1b-7abc-8def-0123456789ab",
    target: { appNumber: 7, versionId: "6f2d3c1e-0000-4000-8000-000000000000" },
    functionName: "run",
    ip: null,
    caller: null,
    webhook: { endpoint: "http://one/" },
  };
  const queued = makeRun(origin, { ...NOT_BEGUN, isAsync: true, state: "queued", createdAt: 1_000 });
  expect(queued).toMatchObject({ appNumber: 7, state: "queued", updatedAt: 1_000, webhookState: "pending" });
  const begun = makeRun(origin, { ...queued, state: "running", startedAt: 2_000 });
  expect(begun).toMatchObject({ state: "running", createdAt: 1_000, updatedAt: 2_000 });
  const fate = { state: "failure", statusCode: 500, errorCode: "app_error", errorMessage: "no" } as const;
  const ended = endRun(begun, fate, 5_000);
  expect(ended).toMatchObject({ ...fate, completedAt: 5_000, updatedAt: 5_000, responseMs: 4_000 });
  expect(withoutEnd(ended)).toEqual(begun);
  expect(endRun(begun, fate, 0).responseMs).toBe(0);
});
