import { get } from "node:http";
import { connect } from "node:net";
import type { Clock } from "../../kit/clock.ts";

/** Where a check goes. */
export type CheckedPlace = { readonly host: string; readonly port: number };

/** How long a server may take to answer a check. */
const ANSWER_MS = 5_000;

/**
 * Asks a server for a sign of health: a good status from that path or, with null, that it accepts a connection.
 * Gives null, or what is wrong, for people.
 */
export async function checkServer(
  place: CheckedPlace,
  endpoint: string | null,
  clock: Clock,
): Promise<string | null> {
  return await (endpoint === null ? tryConnection(place, clock) : tryPath(place, endpoint, clock));
}

async function tryPath(place: CheckedPlace, endpoint: string, clock: Clock): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const request = get({
    ...place,
    path: endpoint,
    agent: false,
    headers: { "user-agent": "millrace-check" },
  });
  request.once("response", ({ statusCode = 0 }) =>
    resolve(statusCode >= 200 && statusCode < 400 ? null : `${endpoint} answered ${statusCode}`),
  );
  request.once("upgrade", () => resolve(`${endpoint} switched to another protocol`));
  request.on("error", ({ message }) => resolve(`${endpoint} did not answer (${message})`));
  const late = clock.after(ANSWER_MS, () => resolve(`${endpoint} did not answer for ${ANSWER_MS / 1000} s`));
  try {
    return await promise;
  } finally {
    late.cancel();
    // Whatever follows the head is of no interest.
    request.destroy();
  }
}

async function tryConnection({ host, port }: CheckedPlace, clock: Clock): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = connect({ host, port });
  socket.once("connect", () => resolve(null));
  socket.on("error", ({ message }) => resolve(`it did not accept a connection (${message})`));
  const late = clock.after(ANSWER_MS, () =>
    resolve(`it did not accept a connection for ${ANSWER_MS / 1000} s`),
  );
  try {
    return await promise;
  } finally {
    late.cancel();
    socket.destroy();
  }
}
