import { packHeader } from "../../../src/kit/tar/archive.ts";
import type { RunRecord } from "../../../src/shapes/runs.ts";
import { until } from "../../support/until.ts";
import type { Answer, TestService } from "../../support/service.ts";

/** An uncompressed tar of files given as text. */
export function tarOf(files: Readonly<Record<string, string>>): Uint8Array<ArrayBuffer> {
  const entries = Object.entries(files).map(([name, text]) => {
    const bytes = Buffer.from(text);
    const head = packHeader({
      name,
      kind: "file",
      mode: 0o644,
      sizeBytes: bytes.length,
      modifiedAt: 0,
      target: "",
    });
    return Buffer.concat([head, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]);
  });
  return Uint8Array.from(Buffer.concat([...entries, Buffer.alloc(1024)]));
}

/** The form of a run: as a client sends it, the data as a file of its own. */
export function formOf(tar: Uint8Array<ArrayBuffer>, data?: string, projectId?: string): FormData {
  const form = new FormData();
  if (projectId !== undefined) form.set("projectId", projectId);
  if (data !== undefined) form.set("data", new Blob([data], { type: "application/json" }), "data.json");
  form.set("file", new Blob([tar], { type: "application/x-tar" }), "bundle.tar");
  return form;
}

/** A client that runs files in one app. */
export class OnceClient {
  readonly #test: TestService;
  readonly #name: string;

  constructor(test: TestService, name: string) {
    this.#test = test;
    this.#name = name;
  }

  get appId(): string {
    return `${this.#test.service.owner.projectId}-${this.#name}`;
  }

  /** One of the three calls, with the owner's token unless another is given. */
  async post(
    action: string,
    body?: FormData | object,
    token: string | null = this.#test.service.owner.token,
  ): Promise<Answer> {
    const { baseUrl, owner } = this.#test.service;
    const isForm = body instanceof FormData;
    const response = await fetch(`${baseUrl}/v3/projects/${owner.projectId}/apps/${this.appId}/${action}`, {
      method: "POST",
      headers: {
        ...(token !== null && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && !isForm && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const json: unknown = text === "" ? null : JSON.parse(text);
    return { status: response.status, headers: response.headers, text, json };
  }

  /** Makes the app and runs a file; resolves with the run's id. */
  async run(query: string, files: Readonly<Record<string, string>>, data?: string): Promise<string> {
    await this.post("create-run-app");
    const { status, text, json } = await this.post(`run?${query}`, formOf(tarOf(files), data));
    if (status !== 200) throw new Error(`${status}: ${text}`);
    return (json as { runId: string }).runId;
  }

  async find(runId: string): Promise<RunRecord> {
    return (await this.#get<{ item: RunRecord }>(`runs/${runId}`)).item;
  }

  /** The run's record when it has ended. */
  async ended(runId: string): Promise<RunRecord> {
    let found = await this.find(runId);
    const isOver = async (): Promise<boolean> => {
      found = await this.find(runId);
      return found.status !== "running" && found.status !== "queued";
    };
    await until(`the run ${runId} ends`, isOver);
    return found;
  }

  /** What the run printed, in order, each line with its stream. */
  async lines(runId: string): Promise<string[]> {
    const { logs } = await this.#get<{ logs: { logLine: string; stream: string }[] }>(
      `logs?runId=${runId}&direction=forward`,
    );
    return logs.map(({ logLine, stream }) => `${stream}: ${logLine}`);
  }

  async #get<Body>(path: string): Promise<Body> {
    const { baseUrl, owner } = this.#test.service;
    const response = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/apps/${this.appId}/${path}`, {
      headers: { authorization: `Bearer ${owner.token}` },
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
    return JSON.parse(text) as Body;
  }
}
