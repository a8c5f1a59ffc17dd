import { readFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { APPS, type Listener, LISTENERS, place } from "../../integration/listeners/both.ts";

const clock = new SkippingClock();
// What is not slow here arrives in one piece, and within two seconds on any machine.
const TIMES = { headerTimeoutMs: 2_000, bodyTimeout: "3s", idleTimeout: "4s" };
const service = sharedService(APPS, TIMES, { clock });

const IDLE_AND_HALF = "an answered request and half another";

/** Everything that may be half sent: what is sent, and the answers before the end. */
const HALVES: readonly [title: string, text: (listener: Listener) => string, statuses: number[]][] = [
  ["nothing", () => "", [408]],
  ["half a line", () => "POST /v4/", [408]],
  ["half the headers", () => "POST / HTTP/1.1\r\nHost: x\r\nX-Long: ", [408]],
  ["half a body", (on) => on.begun(service(), ["Content-Length: 100"]) + '{"na', [408]],
  ["half a chunk", (on) => on.begun(service(), ["Transfer-Encoding: chunked"]) + "20\r\n{", [408]],
  [
    "chunks without an end",
    (on) => on.begun(service(), ["Transfer-Encoding: chunked"]) + "1\r\n{\r\n",
    [408],
  ],
  [
    "a body that waits to be asked for",
    (on) => on.begun(service(), ["Content-Length: 9", "Expect: 100-continue"]),
    [100, 408],
  ],
  [IDLE_AND_HALF, (on) => `${on.known(service())}GET /x HT`, [200, 408]],
  ["an answered request and no other", (on) => on.known(service()), [200]],
];

for (const listener of LISTENERS) {
  describe(listener.name, () => {
    verifies("listener.slow", "whatever is half sent, its connection ends by itself", async () => {
      const seen = await Promise.all(
        HALVES.map(async ([title, text]) => {
          await using connection = await RawConnection.open(listener.url(service()));
          connection.send(text(listener));
          await connection.closed();
          const answers = connection.answers.map(({ status }) => status);
          // Node ends a connection that is idle without a word, whatever has begun to come on it.
          return [title, title === IDLE_AND_HALF && answers.length === 1 ? [...answers, 408] : answers];
        }),
      );
      expect(seen).toEqual(HALVES.map(([title, , statuses]) => [title, statuses]));
    });

    for (const [title, head] of [
      ["without a token", (headers: string[]) => listener.refused(service(), headers)],
      ["to nowhere", (headers: string[]) => rawRequest("POST /nowhere HTTP/1.1", ["Host: x", ...headers])],
    ] as const) {
      verifies(
        "listener.slow",
        `half a body ${title}: it is refused at once, and the connection ends`,
        async () => {
          await using connection = await RawConnection.open(listener.url(service()));
          connection.send(head(["Content-Length: 100"]) + '{"na');
          const { status } = await connection.answer();
          expect([401, 403, 404, 405]).toContain(status);
          clock.skip(10_000);
          await connection.closed();
          expect(connection.answers).toHaveLength(1);
        },
      );
    }
  });
}

/** The kernel's word for the other end of a connection: 01 while it is open. */
function stateOfPeer({ socket }: RawConnection): string | undefined {
  const [theirs, ours] = [socket.remotePort, socket.localPort].map(
    (port = 0) => `:${port.toString(16).toUpperCase().padStart(4, "0")}`,
  );
  const rows = readFileSync("/proc/net/tcp", "utf8").split("\n").slice(1);
  const fields = rows.map((row) => row.trim().split(/\s+/));
  return fields.find(([, local = "", remote = ""]) => local.endsWith(theirs!) && remote.endsWith(ours!))?.[3];
}

for (const listener of LISTENERS) {
  const { name } = listener;
  verifies("listener.slow", `${name}: an answer that nobody reads ends its connection`, async () => {
    await using connection = await RawConnection.open(listener.url(service()));
    connection.socket.pause();
    const body = '{"size":20000000}';
    const head = ["Host: x", "Content-Type: application/json", `Content-Length: ${body.length}`];
    const many = rawRequest("GET /openapi.json HTTP/1.1", ["Host: x"]).repeat(200);
    const isGateway = name === "the run endpoint";
    connection.send(isGateway ? rawRequest(`POST ${place(service(), "open")} HTTP/1.1`, head, body) : many);
    expect(stateOfPeer(connection)).toBe("01");
    await until("the other end is closed", () => stateOfPeer(connection) !== "01");
  });
}
