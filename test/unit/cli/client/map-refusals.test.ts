import { Readable } from "node:stream";
import { expect } from "vitest";
import { acceptedBatch, printResults, resumable } from "../../../../src/cli/client/batches/results.ts";
import type { Task } from "../../../../src/cli/client/task.ts";
import type { CliFailure } from "../../../../src/cli/failure.ts";
import { verifies } from "../../../verifies.ts";

const PROXY_PAGE = "<html>502 Bad Gateway</html>";
const REFUSAL = JSON.stringify({ code: "not_available", message: "Not now.", type: "overloaded" });

type Played = { readonly status: number; readonly body: string };

/** A task whose requests are answered so, one after the other. */
function taskOf(...answers: Played[]): { readonly task: Task; readonly asked: Record<string, unknown>[] } {
  const asked: Record<string, unknown>[] = [];
  const open = async (_method: string, _url: string, options: Record<string, unknown>) => {
    asked.push(options);
    return answerOf(answers.shift()!);
  };
  const api = { open, appUrl: async () => "http://one.test/app", site: { baseUrl: "http://one.test" } };
  return { task: { api, signal: new AbortController().signal } as unknown as Task, asked };
}

function answerOf({ status, body }: Played) {
  return { status, headers: {}, body: Readable.from([Buffer.from(body)]) } as never;
}

verifies("cli.map.resume", "results are asked for again after a 502 or 503", async () => {
  const { task, asked } = taskOf(
    { status: 502, body: PROXY_PAGE },
    { status: 503, body: REFUSAL },
    { status: 200, body: "\n" },
  );
  const reading = { order: "input", isFollowing: true } as const;
  expect(await printResults(task, "app", { id: "b" }, reading)).toEqual({ lines: 0, failures: 0 });
  expect(asked).toHaveLength(3);
});

verifies("cli.map.resume", "any other refusal ends the command at once", async () => {
  const { task } = taskOf({ status: 404, body: JSON.stringify({ code: "batch_not_found", message: "No." }) });
  const reading = { order: "input", isFollowing: true } as const;
  await expect(printResults(task, "app", { id: "b" }, reading)).rejects.toMatchObject({
    detail: { code: "batch_not_found" },
  });
});

verifies("cli.map.resume", "an upload that ends with a 502 or 503 says how to go on", async () => {
  for (const refused of [
    { status: 502, body: PROXY_PAGE },
    { status: 503, body: REFUSAL },
  ]) {
    const { task } = taskOf();
    const error: unknown = await acceptedBatch(task, "app", answerOf(refused)).catch(
      (cause: unknown) => cause,
    );
    const failure = resumable(error, "millrace map app --resume map-1") as CliFailure;
    expect(failure.detail.hint).toBe("to continue: millrace map app --resume map-1");
    expect(failure.message).toMatch(/502|Not now/);
  }
});
