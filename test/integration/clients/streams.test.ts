import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { AppFailed, Cancelled, type ConnectionLost, type RunStream } from "../../../src/client/client.ts";
import { counted, letGo, runningId } from "../../support/run-apps.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";
import { CuttingProxy } from "./cutting-proxy.ts";
import { CLIENTS_MAIN, clientOf, inPython, newGate } from "./site.ts";

const service = sharedService({
  app: { main: CLIENTS_MAIN, toml: "[scaling]\nmax_replicas = 2\n" },
  unkept: { main: CLIENTS_MAIN, toml: '[deployment]\nrecord_payloads = "none"\n' },
  short: { main: CLIENTS_MAIN, toml: '[limits]\nmax_transcript = "64KiB"\n' },
});

async function all(stream: RunStream): Promise<string[]> {
  const texts: string[] = [];
  for await (const text of stream) texts.push(text);
  return texts;
}

async function becomes(id: string | null, status: string): Promise<void> {
  const run = clientOf(service())
    .app("app")
    .find(id ?? "");
  await until(`the run is ${status}`, async () => (await run.record()).status === status);
}

describe("a stream", () => {
  verifies("client.typescript", "gives what the function yields, in every form", async () => {
    const client = clientOf(service());
    expect(await all(client.stream("app", { upto: 5 }, { function: "count" }))).toEqual(counted(5));
    expect(await all(client.stream("app", {}, { function: "empty" }))).toEqual([]);
    expect(await all(client.stream("app", {}, { function: "values" }))).toEqual([
      "two\nlines",
      '{"a":[1,null]}',
      "9007199254740993",
      "",
      '"quoted"',
    ]);
    const reader = openStream(service(), "app", { upto: 40 }, { functionName: "mixed" });
    await reader.ended();
    expect(await all(client.stream("app", { upto: 40 }, { function: "mixed" }))).toEqual(reader.data);
    const names: (string | null)[] = [];
    for await (const { event } of client.stream("app", {}, { function: "own" }).messages()) names.push(event);
    expect(names).toEqual(["a", null, null, null]);
  });

  verifies("client.typescript", "of a plain value is that value, read as JSON too", async () => {
    const client = clientOf(service());
    const values: unknown[] = [];
    for await (const value of client.stream("app", { name: "Ada" }).json<{ message: string }>()) {
      values.push(value.message);
    }
    expect(values).toEqual(["Hello, Ada!"]);
    expect(await all(client.stream("app", { code: 404 }, { function: "code" }))).toEqual([
      '{"status_code":404,"why":"asked"}',
    ]);
  });

  verifies("client.typescript", "comes while the function goes on, and its run is known", async () => {
    const gate = newGate();
    const stream = clientOf(service()).stream("app", { gate, before: 3, after: 2 }, { function: "gated" });
    const texts: string[] = [];
    for await (const text of stream) {
      texts.push(text);
      if (texts.length === 3) letGo(service(), "app", gate);
    }
    expect(texts).toEqual(counted(5));
    await becomes(stream.runId, "success");
    await expect(all(stream)).rejects.toThrow("read only once");
  });

  verifies("client.typescript", "throws what the function raised, before the head and after", async () => {
    const texts: string[] = [];
    const read = async (): Promise<void> => {
      for await (const text of clientOf(service()).stream("app", { upto: 3 }, { function: "broken" })) {
        texts.push(text);
      }
    };
    const error = await read().catch((thrown: unknown) => thrown);
    expect(texts).toEqual(counted(3));
    expect(error).toBeInstanceOf(AppFailed);
    expect(error).toMatchObject({ code: "app_error", message: "ValueError: broken" });
    const fails = all(clientOf(service()).stream("app", {}, { function: "fail" }));
    await expect(fails).rejects.toMatchObject({ name: "AppFailed", status: 500 });
  });
});

describe("a reader who leaves", () => {
  verifies(["client.typescript", "stream.clients"], "by break has cancelled the run", async () => {
    const stream = clientOf(service()).stream("app", {}, { function: "ticking" });
    for await (const text of stream) if (text === "m3") break;
    await becomes(stream.runId, "cancelled");
  });

  verifies(
    "client.typescript",
    "by a signal has cancelled the run, and gets the signal's reason",
    async () => {
      const leaving = new AbortController();
      const { signal } = leaving;
      const stream = clientOf(service()).stream("app", {}, { function: "ticking", signal });
      const read = async (): Promise<void> => {
        for await (const text of stream) if (text === "m2") leaving.abort(new Error("enough"));
      };
      await expect(read()).rejects.toThrow("enough");
      await becomes(stream.runId, "cancelled");
    },
  );

  verifies("client.typescript", "before anything has come has cancelled the run", async () => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const body = { gate: "unopened", before: 0, after: 1 };
    const stream = clientOf(service()).stream("app", body, { function: "gated", signal });
    const texts = all(stream);
    const id = await runningId(service(), "app", "gated");
    leaving.abort(new Error("too slow"));
    await expect(texts).rejects.toThrow("too slow");
    await becomes(id, "cancelled");
  });

  test("a run that was only looked at lets it go on", async () => {
    const gate = newGate();
    const run = await clientOf(service()).runAsync(
      "app",
      { gate, before: 3, after: 1 },
      { function: "gated" },
    );
    for await (const text of run.stream()) if (text === "m2") break;
    expect((await run.record()).status).toBe("running");
    letGo(service(), "app", gate);
    expect((await run.wait()).result).toEqual(counted(4));
  });

  verifies("client.python", "by break or by close has cancelled the run, in Python", async () => {
    const ids = await inPython(
      service(),
      `
stream = millrace.stream("app", {}, function="ticking")
for text in stream:
    if text == "m3": break
first = stream.run.id
stream.close()
with millrace.stream("app", {}, function="ticking") as second:
    next(second)
for text in (third := millrace.stream("app", {}, function="ticking")):
    run = third.run
    break
del third
show([first, second.run.id, run.id])`,
    );
    for (const id of ids as string[]) await becomes(id, "cancelled");
  });
});

describe("a connection that breaks", () => {
  const TRIES = 8;
  const PYTHON = `
app, args, function = json.loads(os.environ["CALL"])
texts = []
try:
    for text in millrace.stream(app, args, function=function, reattach_tries=${TRIES}, idle_seconds=1.0):
        texts.append(text)
    show([texts, None])
except MillraceError as error:
    show([texts, type(error).__name__, error.code])`;

  /** Reads a stream with either client: the texts, and the name and code of what was thrown. */
  async function read(
    language: string,
    url: string,
    call: readonly [app: string, args: Record<string, unknown>, functionName: string],
  ): Promise<{ texts: string[]; error: unknown }> {
    if (language === "Python") {
      const program = `os.environ["CALL"] = ${JSON.stringify(JSON.stringify(call))}\n${PYTHON.trim()}`;
      const [texts, ...error] = (await inPython(service(), program, url)) as [string[], ...unknown[]];
      return { texts, error: error[0] === null ? null : error };
    }
    const [app, args, functionName] = call;
    const options = { function: functionName, reattachTries: TRIES, idleSeconds: 1 };
    const texts: string[] = [];
    try {
      for await (const text of clientOf(service(), url).stream(app, args, options)) texts.push(text);
      return { texts, error: null };
    } catch (error) {
      const { name, code } = error as ConnectionLost;
      return { texts, error: [name, code] };
    }
  }

  /** Cuts the first connection after so many bytes. */
  const firstCut = (afterBytes: number) => (cuts: number) =>
    cuts === 0 ? { afterBytes, isReset: false } : null;

  describe.each(["TypeScript", "Python"])("with the %s client", (language) => {
    verifies("client.reattach", "and then goes silent is left for another", async () => {
      const gate = newGate();
      const proxy = await CuttingProxy.open(service().service.apiUrl);
      const reading = read(language, proxy.url, ["app", { gate, before: 3, after: 3 }, "gated"]);
      await runningId(service(), "app", "gated");
      await until("the first texts have passed", () => proxy.passedBytes > 300);
      proxy.isSilent = true;
      await until("another connection is made", () => proxy.connections > 1);
      proxy.isSilent = false;
      letGo(service(), "app", gate);
      expect(await reading).toEqual({ texts: counted(6), error: null });
    });

    verifies("client.reattach", "to a failing run ends with its error", async () => {
      const proxy = await CuttingProxy.open(service().service.apiUrl, firstCut(1_500));
      const { texts, error } = await read(language, proxy.url, ["app", { upto: 2_000 }, "broken"]);
      expect(proxy.cuts).toBe(1);
      expect([texts.length, texts.at(-1), error]).toEqual([2_000, "m2000", ["AppFailed", "app_error"]]);
    });

    verifies("client.reattach", "for good is not taken for the end", async () => {
      const proxy = await CuttingProxy.open(service().service.apiUrl);
      const reading = read(language, proxy.url, ["app", {}, "ticking"]);
      const id = await runningId(service(), "app", "ticking");
      await until("some texts have passed", () => proxy.passedBytes > 400);
      proxy.isDown = true;
      proxy.cutAll();
      const { texts, error } = await reading;
      expect(error).toEqual(["ConnectionLost", "connection_lost"]);
      expect(texts).toEqual(counted(texts.length));
      await service().ofRun("app", id, "cancel", { method: "POST" });
    });

    verifies(
      ["client.reattach", "client.truncated"],
      "when what it held is not kept is not taken for the end",
      async () => {
        for (const app of ["unkept", "short"]) {
          let isEnded = false;
          const proxy = await CuttingProxy.open(service().service.apiUrl, (cuts) =>
            isEnded ? null : { afterBytes: cuts === 0 ? 2_000 : 0, isReset: true },
          );
          const reading = read(language, proxy.url, [app, { upto: 3_000, size: 100 }, "count"]);
          await until("the first cut", () => proxy.cuts > 0);
          const replicas = [...(service().apps.get(app)?.pool.replicas ?? [])];
          await until("the run has ended", () => replicas.every(({ calls }) => calls.size === 0));
          // What an ended run held in memory goes once its record is stored.
          await service().service.settle();
          isEnded = true;
          const { texts, error } = await reading;
          expect([app, error]).toEqual([app, ["ConnectionLost", "stream_lost"]]);
          expect(texts.length).toBeLessThan(3_000);
        }
      },
    );

    verifies(
      ["client.reattach", "client.truncated"],
      "behind a proxy that makes a proper end of it loses nothing",
      async () => {
        for (const functionName of ["count", "mixed"]) {
          const reader = openStream(service(), "app", { upto: 200 }, { functionName });
          await reader.ended();
          // In the latter case more messages of `mixed` have come than it yields.
          for (const share of [0.5, 0.9]) {
            const url = await forgivingProxy(service().service.apiUrl, share);
            const got = await read(language, url, ["app", { upto: 200 }, functionName]);
            expect([functionName, share, got]).toEqual([
              functionName,
              share,
              { texts: reader.data, error: null },
            ]);
          }
        }
      },
    );
  });

  test("a run that is cancelled by another ends the stream as Cancelled", async () => {
    const stream = clientOf(service()).stream("app", {}, { function: "ticking" });
    const read = async (): Promise<void> => {
      for await (const text of stream) {
        if (text !== "m2") continue;
        await clientOf(service())
          .app("app")
          .find(stream.runId ?? "")
          .cancel();
      }
    };
    await expect(read()).rejects.toBeInstanceOf(Cancelled);
  });
});

/** An HTTP proxy that ends each answer to a call after that share of it, and properly, as some do when the service dies. */
async function forgivingProxy(target: string, share: number): Promise<string> {
  const server = createServer((request, response) => {
    void (async () => {
      const pieces: Buffer[] = [];
      for await (const piece of request) pieces.push(piece as Buffer);
      const { host: _, connection: __, ...headers } = request.headers;
      const isCall = request.method === "POST";
      const answer = await fetch(`${target}${request.url}`, {
        method: request.method ?? "GET",
        headers: { ...(headers as Record<string, string>), "accept-encoding": "identity" },
        ...(isCall && { body: Buffer.concat(pieces) }),
      });
      const { "content-length": ___, ...kept } = Object.fromEntries(answer.headers);
      response.writeHead(answer.status, kept);
      const body = Buffer.from(await answer.arrayBuffer());
      response.end(isCall ? body.subarray(0, body.length * share) : body);
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
