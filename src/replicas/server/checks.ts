import { connect } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import type { ServerPlace } from "../../engines/engine.ts";
import { get } from "../../kit/node-http.ts";

type Address = { readonly host: string; readonly port: number; readonly path?: string };

/** How long a server may take to answer a check. */
const ANSWER_MS = 5_000;

/** Checks a starting server: a good status or, with null, an accepted connection. Returns null, or what is wrong. */
export async function checkStart(
  place: ServerPlace,
  endpoint: string | null,
  clock: Clock,
): Promise<string | null> {
  if (place.kind !== "listening" || endpoint !== null) return await checkServer(place, endpoint, clock);
  return await tryConnection(place, clock);
}

/**
 * Checks a running server. With null it is enough that it listens: connections that a busy server does not accept stay
 * in its queue, and checks alone would fill it.
 */
export async function checkServer(
  place: ServerPlace,
  endpoint: string | null,
  clock: Clock,
): Promise<string | null> {
  switch (place.kind) {
    case "nowhere":
      return place.why ?? "nothing listens on its port";
    case "taken":
      return `another process listens on its port ${place.port}`;
    case "listening":
      return endpoint === null ? null : await tryPath(place, endpoint, clock);
    default:
      return place satisfies never;
  }
}

function tryPath({ host, port, path }: Address, endpoint: string, clock: Clock): Promise<string | null> {
  return reported(`${endpoint} did not answer`, clock, (report) => {
    const request = get({
      ...(path === undefined ? { host, port } : { socketPath: path }),
      path: endpoint,
      agent: false,
      headers: { "user-agent": "millrace-check" },
    });
    request.once("response", ({ statusCode = 0 }) =>
      report(statusCode >= 200 && statusCode < 400 ? null : `${endpoint} answered ${statusCode}`),
    );
    request.once("upgrade", () => report(`${endpoint} switched to another protocol`));
    return request;
  });
}

function tryConnection({ host, port, path }: Address, clock: Clock): Promise<string | null> {
  return reported("it did not accept a connection", clock, (report) =>
    connect(path === undefined ? { host, port } : { path }).once("connect", () => report(null)),
  );
}

/** What a check reports; `failure` with the reason if it fails, or reports nothing in time. */
async function reported(
  failure: string,
  clock: Clock,
  begin: (report: (fault: string | null) => void) => NodeJS.EventEmitter & { destroy(): unknown },
): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const check = begin(resolve);
  check.on("error", ({ message }: Error) => resolve(`${failure} (${message})`));
  const late = clock.after(ANSWER_MS, () => resolve(`${failure} for ${ANSWER_MS / 1000} s`));
  try {
    return await promise;
  } finally {
    late.cancel();
    // A response's body is not needed.
    check.destroy();
  }
}
