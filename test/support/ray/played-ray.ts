import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";

/** A job that was submitted. */
export type PlayedJob = {
  readonly id: string;
  readonly body: Record<string, unknown>;
  status: string;
  log: string;
};

/** The Jobs API of a Ray cluster, as far as a service uses it, which does what a test wants. */
export class PlayedRay {
  readonly jobs = new Map<string, PlayedJob>();
  readonly packages = new Map<string, Buffer>();
  /** The tokens that requests showed. */
  readonly tokens: (string | undefined)[] = [];
  readonly condition = new Condition();
  version = "2.60.0";
  /** In place of any answer. */
  answer: ((response: ServerResponse) => void) | null = null;
  address = "";

  /** It ends with the test. */
  static async listen(): Promise<PlayedRay> {
    const ray = new PlayedRay();
    const server = createServer((request, response) => {
      ray.#take(request, response).catch(() => response.destroy());
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    ray.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    onTestFinished(async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    });
    return ray;
  }

  /** The one that was submitted last. */
  get job(): PlayedJob {
    const job = [...this.jobs.values()].at(-1);
    if (!job) throw new Error("nothing was submitted");
    return job;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    this.tokens.push(request.headers.authorization);
    const say = (value: unknown): void => void response.end(JSON.stringify(value));
    if (this.answer) this.answer(response);
    else if (request.url === "/api/version") say({ ray_version: this.version });
    else if (request.url === "/api/jobs/") {
      const asked = JSON.parse(body.toString()) as Record<string, unknown> & { submission_id: string };
      const id = asked.submission_id;
      this.jobs.set(id, { id, body: asked, status: "RUNNING", log: "" });
      say({ submission_id: id });
    } else this.#find(request, response, body);
    this.condition.notify();
  }

  #find({ method, url = "" }: IncomingMessage, response: ServerResponse, body: Buffer): void {
    const [, name, id = "", action] = /^\/api\/(jobs|packages\/gcs)\/([^/]+)(?:\/(\w+))?$/.exec(url) ?? [];
    const job = this.jobs.get(id);
    const say = (value: unknown): void => void response.end(JSON.stringify(value));
    if (name === "packages/gcs" && method === "PUT") {
      this.packages.set(id, body);
      response.end();
    } else if (name === "packages/gcs" && this.packages.has(id)) response.end();
    else if (!job) response.writeHead(404).end(`Job ${id} does not exist`);
    else if (action === "logs") say({ logs: job.log });
    else if (action === "stop") {
      job.status = "STOPPED";
      say({ stopped: true });
    } else say({ status: job.status, message: `it is ${job.status}`, entrypoint: "…" });
  }
}
