import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { type Clock, systemClock } from "../../../src/kit/clock.ts";
import type { S3Address } from "../../../src/blobs/s3/s3-client.ts";

/** A request that came, with its body. */
export type Came = {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
};

/** Answers a request, or does whatever a store may do instead. */
export type Play = (came: Came, answer: ServerResponse, past: readonly Came[]) => void;

/** A server that answers as a test says, and remembers what came; its address is that of a bucket. */
export async function scriptedStore(play: Play): Promise<{ address: S3Address; came: Came[]; url: string }> {
  const came: Came[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(request);
    const { method = "", url = "", headers } = request;
    came.push({ method, url, headers, body });
    play(came.at(-1)!, response, came.slice(0, -1));
  };
  const server = createServer((request, response) => void take(request, response));
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const address = { kind: "s3", bucket: "bucket", prefix: "", endpoint: url, region: "here" } as const;
  return { address: { ...address, isPathStyle: true }, came, url };
}

/** The time goes on as it does; nobody waits between two tries. */
export const impatientClock: Clock = { ...systemClock, after: (_, act) => systemClock.after(0, act) };

/** Keys that a scripted store does not look at. */
export const ANY_KEYS = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
