import type { BuildStatus } from "../../src/model/build.ts";
import { until } from "./until.ts";

const FINAL: readonly BuildStatus[] = [
  "success",
  "build_failure",
  "init_failure",
  "init_timeout",
  "cancelled",
];

/** Where a client deploys to, and as whom. */
export type DeployPlace = { readonly baseUrl: string; readonly projectId: string; readonly token: string };

export type BegunDeploy = { readonly buildId: string; readonly uploadUrl: string };

type Body = Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;

/** Deploys an app the way existing clients do. */
export class DeployClient {
  readonly #place: DeployPlace;
  readonly #app: string;

  constructor(place: DeployPlace, app: string) {
    this.#place = place;
    this.#app = app;
  }

  async begin(payload: object = {}): Promise<BegunDeploy> {
    return await this.#ask("/apps", { name: this.#app, ...payload });
  }

  /** Sends the zip; resolves with the status of the answer. */
  async put({ uploadUrl }: BegunDeploy, zip: Body): Promise<number> {
    const { pathname, search } = new URL(uploadUrl);
    // It may be another start of the service, on another port, that the link is good for.
    const url = `${this.#place.baseUrl}${pathname}${search}`;
    const init = { method: "PUT", body: zip, duplex: "half" } as const;
    return (await fetch(url, init)).status;
  }

  /** The whole way; resolves with the build's id and final status. */
  async deploy(
    zip: Uint8Array<ArrayBuffer>,
    payload: object = {},
  ): Promise<{ buildId: string; status: BuildStatus }> {
    const begun = await this.begin(payload);
    const put = await this.put(begun, zip);
    if (put !== 200) throw new Error(`the upload was answered ${put}`);
    return { buildId: begun.buildId, status: await this.ended(begun.buildId) };
  }

  async status(buildId: string): Promise<BuildStatus> {
    const { status } = await this.#ask<{ status: BuildStatus }>(`${this.#builds}/${buildId}`);
    return status;
  }

  /** All its builds, newest first. */
  async list(): Promise<{ id: string; status: BuildStatus; message: string | null }[]> {
    return await this.#ask(this.#builds);
  }

  /** The lines of a build's log. */
  async log(buildId: string): Promise<string[]> {
    const { logs } = await this.#ask<{ logs: { log: string }[] }>(`${this.#builds}/${buildId}/logs`);
    return logs.map(({ log }) => log);
  }

  /** The build's status when it is final. */
  async ended(buildId: string): Promise<BuildStatus> {
    let status: BuildStatus = "pending";
    const isFinal = async (): Promise<boolean> => {
      status = await this.status(buildId);
      return FINAL.includes(status);
    };
    await until(`the build ${buildId} ends`, isFinal);
    return status;
  }

  get #builds(): string {
    return `/apps/${this.#place.projectId}-${this.#app}/builds`;
  }

  async #ask<Answer>(path: string, body?: object): Promise<Answer> {
    const { baseUrl, projectId, token } = this.#place;
    const headers = { authorization: `Bearer ${token}` };
    const sent = body && {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify(body),
    };
    const response = await fetch(`${baseUrl}/v2/projects/${projectId}${path}`, sent ?? { headers });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
    return JSON.parse(text) as Answer;
  }
}
