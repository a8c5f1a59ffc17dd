import { expect, test } from "vitest";
import type { AppLogLine } from "../../../../src/apps/catalog.ts";
import { copyAppLines } from "../../../../src/cli/operator/serve.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

function line(appNumber: number, text: string): AppLogLine {
  const where = { projectId: "p-one", appName: `app-${appNumber}`, appNumber, replicaId: "r-one" };
  return { ...where, runId: null, stream: "stdout", text };
}

verifies(
  "logs.stdout.bounded",
  "an app that prints without end is copied within bounds, and one line tells of the rest",
  () => {
    const clock = new HandClock();
    const printed: AppLogLine[] = [];
    const { onAppLog, stop } = copyAppLines(clock, (each) => printed.push(each));
    for (let i = 0; i < 100_000; i++) onAppLog(line(1, `line ${i}`));
    expect(printed).toHaveLength(500);
    onAppLog(line(2, "a word of another"));
    expect(printed.at(-1)?.text).toBe("a word of another");
    clock.advance(1_000);
    expect(printed.at(-1)).toMatchObject({
      appName: "app-1",
      text: "[millrace] 99500 lines are omitted here; `millrace logs` shows more",
    });
    for (let i = 0; i < 100; i++) onAppLog(line(1, "again"));
    stop();
    expect(printed.at(-1)?.text).toContain("50 lines are omitted here");
    expect(clock.pending).toBe(0);
  },
);

test("a long line is copied in part, and many bytes are a flood too", () => {
  const printed: AppLogLine[] = [];
  const { onAppLog } = copyAppLines(new HandClock(), (each) => printed.push(each));
  for (let i = 0; i < 20; i++) onAppLog(line(1, "x".repeat(60_000)));
  expect(printed.map(({ text }) => text)).toEqual(Array(5).fill(`${"x".repeat(2_000)} [millrace: cut]`));
});
