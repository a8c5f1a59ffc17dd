import { describe, expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";
import { CuttingProxy, randomCuts, randomFrom } from "../../integration/clients/cutting-proxy.ts";
import { CLIENTS_MAIN, clientOf, inPython } from "../../integration/clients/site.ts";

const CUTS = 100;
const MAX_BYTES = 8_192;
/** Enough for all the cuts, by far: they come after some 3 KiB each. */
const UPTO = 7_000;

const service = sharedService({ app: { main: CLIENTS_MAIN } });

/** What the stream is without any cut, as a bare socket and an independent parser see it. */
async function uncut(): Promise<unknown[]> {
  const reader = openStream(service(), "app", { upto: UPTO }, { functionName: "mixed" });
  await reader.ended();
  expect(reader.isWhole).toBe(true);
  return reader.messages.map(({ event, data }) => [event, data]);
}

/** A proxy that cuts a hundred times, at places that the printed seed gives again. */
async function cuttingProxy(language: string): Promise<CuttingProxy> {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  process.stderr.write(`cuts of ${language}: TEST_SEED=${seed}\n`);
  return await CuttingProxy.open(service().service.apiUrl, randomCuts(CUTS, MAX_BYTES, randomFrom(seed)));
}

describe(`a stream whose connection is cut ${CUTS} times at random loses nothing, doubles nothing, keeps its order`, () => {
  for (const encoding of ["gzip", "identity"]) {
    verifies(
      ["client.reattach", "client.typescript"],
      `with the TypeScript client, ${encoding}`,
      async () => {
        const expected = await uncut();
        const proxy = await cuttingProxy(`TypeScript, ${encoding}`);
        const seen = new Set<string | null>();
        const client = clientOf(service(), proxy.url, { fetch: encoded(encoding, seen), backoffMs: 1 });
        const stream = client.stream(
          "app",
          { upto: UPTO },
          { function: "mixed", retries: CUTS, reattachTries: CUTS },
        );
        const got: unknown[] = [];
        for await (const { event, data } of stream.messages()) got.push([event, data]);
        expect(got.length).toBe(expected.length);
        expect(got).toEqual(expected);
        expect(seen.has("gzip")).toBe(encoding === "gzip");
        expect(proxy.cuts).toBe(CUTS);
      },
    );
  }

  verifies(["client.reattach", "client.python"], "with the Python client", async () => {
    const expected = await uncut();
    const proxy = await cuttingProxy("Python");
    const program = `
stream = millrace.stream("app", {"upto": ${UPTO}}, function="mixed", retries=${CUTS}, reattach_tries=${CUTS})
show([list(message) for message in stream.messages()])`;
    const got = (await inPython(service(), program, proxy.url)) as unknown[];
    expect(got.length).toBe(expected.length);
    expect(got).toEqual(expected);
    expect(proxy.cuts).toBe(CUTS);
  });
});

/** `fetch` with an encoding of its own choice; keeps how the answers came. */
function encoded(encoding: string, seen: Set<string | null>): typeof fetch {
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("accept-encoding", encoding);
    const response = await fetch(input, { ...init, headers });
    seen.add(response.headers.get("content-encoding"));
    return response;
  };
}
