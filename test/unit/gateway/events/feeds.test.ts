import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import path from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";
import { Cors } from "../../../../src/gateway/cors.ts";
import { FAR_END } from "../../../../src/gateway/events/feed.ts";
import { Feeds, READER_LIMITS } from "../../../../src/gateway/events/feeds.ts";
import { Exchange, OpenExchanges } from "../../../../src/gateway/exchange.ts";
import { UnreadAnswers } from "../../../../src/gateway/unread-answers.ts";
import { systemClock } from "../../../../src/kit/clock.ts";
import type { AppError } from "../../../../src/model/errors.ts";
import { ProgressKeeper } from "../../../../src/runs/progress.ts";
import type { LiveRun } from "../../../../src/runs/live-run.ts";
import type { KnownRun } from "../../../../src/runs/lookup.ts";
import { plainTranscript } from "../../../../src/runs/transcript.ts";
import { NO_QUEUE_WATCH } from "../../../support/no-queue.ts";
import { sampleRun } from "../../../support/sample-run.ts";
import { HandClock } from "../../../support/clocks.ts";
import { REPOSITORY } from "../../../support/source-files.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const LIMITS = { ofRun: 2, ofProject: 3 };

/** A run that gives nothing more, and does not end. */
function runUnderWay(): KnownRun {
  const transcript = plainTranscript(null);
  const progress = new ProgressKeeper(new HandClock(), () => null);
  const live = { keepProgress: () => progress } as LiveRun;
  return { run: sampleRun({ state: "running" }), live, payload: null, transcript, isKept: true };
}

/** A server whose readers of `/{project}/{run}` come after the number in the query; gives its address. */
async function serve(): Promise<string> {
  const lookup = { findLater: () => new Promise<null>(() => {}) };
  const feeds = new Feeds({ lookup, queueWatch: NO_QUEUE_WATCH, clock: systemClock, readerLimits: LIMITS });
  const parts = {
    cors: new Cors([]),
    onFault: (exchange: Exchange, error: unknown) => exchange.fail(error as AppError),
    open: new OpenExchanges(),
    unread: new UnreadAnswers(1_000, systemClock),
  };
  const server = createServer((asked, response) => {
    const [, projectId = "", runId = ""] = (asked.url ?? "").split("/");
    const app = { number: projectId.length, projectId, name: "app" };
    const options = { sse: "auto" as const, isGzip: false, stallSeconds: 60, hold: () => {} };
    const events = { app, runId, after: 0, ...options };
    const exchange = new Exchange(asked, response, "id", parts);
    exchange.attempt(async () => {
      feeds.requireRoom(events);
      await feeds.answer(exchange, feeds.known(events) ?? runUnderWay(), events);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The status of one more reader, who leaves. */
async function statusOf(url: string): Promise<number | undefined> {
  const response = await ask(url);
  response.destroy();
  return response.statusCode;
}

async function ask(url: string): Promise<IncomingMessage> {
  const asked = request(url, { agent: false }).on("error", () => {});
  asked.end();
  const [response] = (await once(asked, "response")) as [IncomingMessage];
  response.on("error", () => {});
  return response;
}

verifies("runs.events.limits", "the limits are those that the documents name", () => {
  expect(READER_LIMITS).toEqual({ ofRun: 5_000, ofProject: 7_500 });
  const [run, project] = Object.values(READER_LIMITS).map((limit) => limit.toLocaleString("en"));
  const read = (name: string) => readFileSync(path.join(REPOSITORY, "docs", name), "utf8");
  expect(read("operations.md")).toContain(`${run} for one run, and ${project} for one project.`);
  expect(read("api.md")).toContain(
    `Up to ${run} connections can read the events of one run, and up to ${project}`,
  );
  expect(read("api.md")).toContain(
    `it is ${FAR_END}, so that it is never the number of an event that was lost`,
  );
});

verifies("runs.events.limits", "a reader too many of a run or of a project is refused", async () => {
  const url = await serve();
  const open = [await ask(`${url}/p-one/first`), await ask(`${url}/p-one/first`)];
  const ofRun = await ask(`${url}/p-one/first`);
  expect([ofRun.statusCode, ofRun.headers["retry-after"]]).toEqual([429, "5"]);
  expect(JSON.parse(await text(ofRun))).toMatchObject({
    code: "too_many_requests",
    message: expect.stringMatching(/^The run has 2 connections that read events/) as string,
  });
  open.push(await ask(`${url}/p-one/second`));
  const ofProject = await ask(`${url}/p-one/third`);
  expect(JSON.parse(await text(ofProject))).toMatchObject({
    code: "too_many_requests",
    message: expect.stringMatching(/^The project has 3 connections that read events/) as string,
  });
  const another = await ask(`${url}/p-other/first`);
  expect([...open, another].map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200]);
  // Whoever leaves makes room.
  open[0]?.destroy();
  await until("there is room", async () => {
    const next = await ask(`${url}/p-one/first`);
    return next.statusCode === 200;
  });
  expect((await ask(`${url}/p-one/third`)).statusCode).toBe(429);
});

verifies("runs.events.limits", "readers that wait behind another on a connection leave with it", async () => {
  const url = await serve();
  const { port } = new URL(url);
  const connection = connect({ host: "127.0.0.1", port: Number(port) });
  await once(connection, "connect");
  connection.write("GET /p-one/first HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2));
  await until("both are there", async () => (await statusOf(`${url}/p-one/first`)) === 429);
  connection.destroy();
  await until("both have left", async () => {
    const first = await ask(`${url}/p-one/first`);
    const second = await ask(`${url}/p-one/first`);
    for (const response of [first, second]) response.destroy();
    return first.statusCode === 200 && second.statusCode === 200;
  });
});
