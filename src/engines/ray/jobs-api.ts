import { readFileSync } from "node:fs";
import { z } from "zod";
import { sendPatiently, readJson } from "../cluster-request.ts";
import type { Settings } from "../../config/setting-keys.ts";

const SILENCE_MS = 30_000;
const ANSWER_MS = 120_000;
/** The log of a job is the longest. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_WORDS = 500;

const JOB = z.object({
  status: z.enum(["PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"]),
  message: z.string().nullish(),
});
const VERSION = z.object({ ray_version: z.string().max(100) });
const LOGS = z.object({ logs: z.string() });

export type Job = { readonly isOver: boolean; readonly message: string };

export class RayRefusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = "RayRefusal";
    this.status = status;
  }

  get isUnauthorized(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

/** The Jobs API of Ray. It does not retry. It avoids `fetch`: its headers look like a browser's, which the dashboard refuses. */
export class JobsApi {
  readonly address: string;
  readonly #token: () => string | null;
  readonly #answerMs: number;

  constructor(address: string, token: () => string | null, answerMs = ANSWER_MS) {
    this.address = address;
    this.#token = token;
    this.#answerMs = answerMs;
  }

  /** Ray's version, such as 2.60.0. */
  async version(): Promise<string> {
    return VERSION.parse(await this.#ask("GET", "/api/version")).ray_version;
  }

  /** Uploads the files of a job, unless the cluster has an archive of that name. */
  async bring(name: string, archive: Buffer): Promise<void> {
    const path = `/api/packages/gcs/${encodeURIComponent(name)}`;
    if ((await this.#seek("GET", path)) === null) await this.#ask("PUT", path, archive);
  }

  /** Starts a command in the files of an archive. Every user of the dashboard can see all of it. */
  async submit(id: string, command: string, archiveName: string): Promise<void> {
    await this.#ask("POST", "/api/jobs/", {
      submission_id: id,
      entrypoint: command,
      runtime_env: { working_dir: `gcs://${archiveName}` },
      metadata: { name: "millrace supervisor" },
    });
  }

  async look(id: string): Promise<Job | null> {
    const found = await this.#seek("GET", pathOf(id));
    if (found === null) return null;
    const { status, message } = JOB.parse(found);
    return { isOver: status !== "PENDING" && status !== "RUNNING", message: words(message ?? status) };
  }

  /** A job's whole output; empty if Ray does not know it. */
  async log(id: string): Promise<string> {
    const found = await this.#seek("GET", `${pathOf(id)}/logs`);
    return found === null ? "" : LOGS.parse(found).logs;
  }

  /** Ends a job. Idempotent. */
  async stop(id: string): Promise<void> {
    await this.#seek("POST", `${pathOf(id)}/stop`);
  }

  /** Like `#ask`, but returns null for 404. */
  async #seek(method: string, path: string): Promise<unknown> {
    try {
      return await this.#ask(method, path);
    } catch (error) {
      if (error instanceof RayRefusal && error.status === 404) return null;
      throw error;
    }
  }

  async #ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const url = new URL(`${this.address}${path}`);
    const { request } = process.getBuiltinModule(url.protocol === "https:" ? "node:https" : "node:http");
    const token = this.#token();
    const isBytes = Buffer.isBuffer(body);
    const type = isBytes ? "application/octet-stream" : "application/json";
    const sent = request(url, {
      method,
      headers: {
        accept: "application/json",
        ...(body !== undefined && { "content-type": type }),
        ...(token !== null && { authorization: `Bearer ${token}` }),
      },
      agent: false,
      timeout: SILENCE_MS,
    });
    const given = body === undefined || isBytes ? body : JSON.stringify(body);
    const answer = await sendPatiently(sent, given, { silenceMs: SILENCE_MS, wholeMs: this.#answerMs });
    return await readJson(answer, MAX_ANSWER_BYTES, "Ray", refusalOf);
  }
}

/** The API of the cluster in the settings. Throws if they name none. */
export function openJobsApi(settings: Pick<Settings, "rayAddress" | "rayTokenFile">): JobsApi {
  const { rayAddress, rayTokenFile: file } = settings;
  if (rayAddress === null)
    throw new Error("engine = ray needs MILLRACE_RAY_ADDRESS, the address of the Ray dashboard");
  return new JobsApi(rayAddress, () => (file === null ? null : readFileSync(file, "utf8").trim()));
}

export function describeRayTrouble(error: unknown): string {
  if (error instanceof RayRefusal) return error.message;
  return words(`Ray cannot be reached: ${(error as Error).message}`);
}

function pathOf(id: string): string {
  return `/api/jobs/${encodeURIComponent(id)}`;
}

function refusalOf(status: number, text: string): RayRefusal {
  if (status === 401 || status === 403)
    return new RayRefusal(status, "Ray refused the token: set MILLRACE_RAY_TOKEN_FILE");
  // A Python traceback, whose last line is the error.
  const said = text.trim().split("\n").at(-1) ?? "";
  return new RayRefusal(status, words(`Ray answered ${status}${said === "" ? "" : `: ${said}`}`));
}

function words(text: string): string {
  return text.slice(0, MAX_WORDS);
}

/** The first version whose detached actors and asyncio behave as in newer ones. */
const LEAST_RAY = [2, 40] as const;
/** The agent needs it. */
const LEAST_PYTHON = [3, 9] as const;

/** Why a cluster with that Ray, and that Python if known, cannot be used; null if it can. */
export function whyTooOld(ray: string, python?: string): string | null {
  if (!isAtLeast(ray, LEAST_RAY))
    return `the cluster has Ray ${ray}; ${LEAST_RAY.join(".")} or newer is needed`;
  if (python !== undefined && !isAtLeast(python, LEAST_PYTHON))
    return `the cluster has Python ${python}; ${LEAST_PYTHON.join(".")} or newer is needed`;
  return null;
}

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [given = 0, second = 0] = version.split(".").map(Number);
  return given > major || (given === major && second >= minor);
}
