import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished } from "vitest";
import { Millrace, type MillraceError } from "../../../src/client/client.ts";
import { AppError, errorBody } from "../../../src/model/errors.ts";
import type { TestService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { inPython } from "./site.ts";

const RUN = "0197c3a0-7e1b-7abc-8def-0123456789ab";
/** The id of a request, which the service sends as `X-Request-Id`. */
const REQUEST = "0197c3a0-7e1b-7abc-8def-00000000000a";
const event = (id: number, data: string): string => `id: ${id}\ndata: ${data}\n\n`;
const error = (code: "node_lost" | "unauthorized", id: string): string =>
  `event: error\ndata: ${errorBody(new AppError(code), id)}\n\n`;
const END = `event: end\nid: 9\ndata: ${JSON.stringify({ id: RUN, status: "success", statusCode: 200, error: null })}\n\n`;

/** A service whose answers to `…/events` are these texts, one after the other and then the last again. */
async function playedService(answers: readonly string[]): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(String(request.headers["last-event-id"] ?? ""));
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "x-request-id": REQUEST });
    response.end(answers[Math.min(asked.length, answers.length) - 1]);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

type Got = readonly [texts: string[], error: string | null];

/** Reads a run with either client: the texts, and the code of what was thrown. */
const READERS: Record<string, (url: string) => Promise<Got>> = {
  TypeScript: async (url) => {
    const texts: string[] = [];
    const client = new Millrace({ url, project: "p-one", token: "token", backoffMs: 1 });
    try {
      const run = client.app("app").find(RUN);
      for await (const text of run.stream({ reattachTries: 2 })) texts.push(text);
      return [texts, null];
    } catch (thrown) {
      return [texts, (thrown as MillraceError).code];
    }
  },
  Python: async (url) => {
    const owner = { projectId: "p-one", token: "token" };
    const program = `
texts = []
try:
    for text in millrace.find("app", "${RUN}").stream(reattach_tries=2):
        texts.append(text)
    show([texts, None])
except MillraceError as error:
    show([texts, error.code])`;
    return (await inPython({ service: { owner } } as unknown as TestService, program, url)) as Got;
  },
};

describe.each(Object.entries(READERS))("the %s client", (_, read) => {
  verifies(
    "client.truncated",
    "raises an error for what is not stored, before what came after it",
    async () => {
      for (const gap of ['{"firstEvent":5}', '{"firstEvent":null}', '{"firstEvent":null,"lastEvent":2}']) {
        const { url } = await playedService([`${event(1, "a")}event: truncated\ndata: ${gap}\n\n${END}`]);
        expect([gap, await read(url)]).toEqual([gap, [["a"], "stream_lost"]]);
      }
    },
  );

  verifies("client.truncated", "takes no end of a connection for that of the run", async () => {
    const { url, asked } = await playedService([event(1, "a"), ""]);
    expect(await read(url)).toEqual([["a"], "connection_lost"]);
    // Progress counts once, then each of the tries.
    expect(asked).toEqual(["", "1", "1"]);
  });

  verifies("progress.events", "does not take the service's reports of progress for chunks", async () => {
    const report =
      'event: progress\ndata: {"fraction":0.5,"message":null,"at":"2026-01-15T12:00:00.000Z"}\n\n';
    const own = "event: progress\nid: 2\ndata: the app's own\n\n";
    const { url, asked } = await playedService([
      report + event(1, "a") + report + own,
      report + event(3, "c") + report + END,
    ]);
    expect([await read(url), asked]).toEqual([
      [["a", "the app's own", "c"], null],
      ["", "2"],
    ]);
  });

  verifies("client.truncated", "resumes where the service says that a node was lost", async () => {
    const { url, asked } = await playedService([
      event(1, "a") + event(2, "b") + error("node_lost", REQUEST),
      event(3, "c") + END,
    ]);
    expect([await read(url), asked]).toEqual([
      [["a", "b", "c"], null],
      ["", "2"],
    ]);
  });

  verifies(
    "client.truncated",
    "raises the error with which the service ends its answer, not an app's",
    async () => {
      // An app has passed on what another run told.
      const foreign = error("unauthorized", RUN);
      const { url } = await playedService([
        `id: 1\n${foreign}${event(2, "b")}${error("unauthorized", REQUEST)}`,
      ]);
      const [texts, code] = await read(url);
      expect([texts.length, texts[1], code]).toEqual([2, "b", "unauthorized"]);
    },
  );
});
