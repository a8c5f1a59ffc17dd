import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { appId } from "../../../src/model/names.ts";
import { until } from "../../support/until.ts";
import type { TestService } from "../../support/service.ts";
import { makeZip } from "../../support/zip-maker.ts";

export type Files = Readonly<Record<string, string>>;

export type Asked = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON. */
  // oxlint-disable-next-line no-explicit-any
  readonly json: any;
};

const FINAL = ["success", "build_failure", "init_failure", "init_timeout", "cancelled"];

/** A command that goes on when the test lets it. */
export const HELD = "pwd; echo held; while [ ! -e go ]; do sleep 0.02; done; echo let go";

/** A bundle with a main.py, and further files. */
export function bundle(main: string, files: Files = {}): Buffer {
  const all = { "main.py": main, ...files };
  return makeZip(Object.entries(all).map(([name, content]) => ({ name, content })));
}

/** A main.py whose function gives that answer. */
export function answering(answer: string): string {
  return `def run():\n    return ${JSON.stringify(answer)}\n`;
}

/** Deploys as a client makes them: over HTTP alone. */
export class DeploySite {
  readonly test: TestService;

  constructor(test: TestService) {
    this.test = test;
  }

  get projectId(): string {
    return this.test.service.owner.projectId;
  }

  appId(app: string): string {
    return appId(this.projectId, app);
  }

  /** A request with the owner's token; a path without its slash is of the project. */
  async ask(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Asked> {
    const { baseUrl, owner } = this.test.service;
    const isBytes = body instanceof Uint8Array;
    const url = path.startsWith("/")
      ? `${baseUrl}${path}`
      : `${baseUrl}/v2/projects/${owner.projectId}/${path}`;
    const response = await fetch(url, {
      method,
      headers: {
        authorization: `Bearer ${owner.token}`,
        ...(body !== undefined && { "content-type": isBytes ? "application/zip" : "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: isBytes ? new Uint8Array(body) : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parse(text) };
  }

  /** Begins a deploy. */
  async begin(app: string, payload: object = {}): Promise<{ buildId: string; uploadUrl: string }> {
    const { status, json, text } = await this.ask("POST", "apps", { name: app, ...payload });
    if (status !== 200) throw new Error(`${status} ${text}`);
    return json;
  }

  /** Sends the bundle; no token is asked for. */
  async put(uploadUrl: string, zip: Uint8Array): Promise<Asked> {
    const response = await fetch(uploadUrl, {
      method: "PUT",
      headers: { "content-type": "application/zip" },
      body: new Uint8Array(zip),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parse(text) };
  }

  async status(app: string, buildId: string): Promise<string> {
    return (await this.ask("GET", `apps/${this.appId(app)}/builds/${buildId}`)).json.status;
  }

  /** Waits for the build's end; gives its status. */
  async ended(app: string, buildId: string): Promise<string> {
    let status = "";
    const hasEnded = async (): Promise<boolean> => {
      status = await this.status(app, buildId);
      return FINAL.includes(status);
    };
    await until(`the build ends, now ${status}`, hasEnded);
    return status;
  }

  /** Waits until the build's log holds a text. */
  async logged(app: string, buildId: string, text: string): Promise<void> {
    await until(`the log says ${text}`, async () => (await this.log(app, buildId)).includes(text));
  }

  /** Lets a held command go on. */
  async letGo(app: string, buildId: string): Promise<void> {
    await this.logged(app, buildId, "held");
    const lines = (await this.log(app, buildId)).split("\n");
    const folder = lines.find((line) => line.startsWith("/") && line.endsWith("bundle"));
    if (folder === undefined) throw new Error(`the log names no folder: ${lines.join("; ")}`);
    await writeFile(path.join(folder, "go"), "");
  }

  /** The build's log, one text. */
  async log(app: string, buildId: string): Promise<string> {
    const { json } = await this.ask("GET", `apps/${this.appId(app)}/builds/${buildId}/logs`);
    return (json.logs as { log: string }[]).map(({ log }) => log).join("\n");
  }

  /** The whole way; gives the build's id and how it ended. */
  async deploy(
    app: string,
    zip: Uint8Array,
    payload: object = {},
  ): Promise<{ buildId: string; status: string }> {
    const { buildId, uploadUrl } = await this.begin(app, payload);
    const put = await this.put(uploadUrl, zip);
    if (put.status !== 200) throw new Error(`${put.status} ${put.text}`);
    return { buildId, status: await this.ended(app, buildId) };
  }

  /** The reason that the list of builds gives. */
  async message(app: string, buildId: string): Promise<string | null> {
    const { json } = await this.ask("GET", `apps/${this.appId(app)}/builds`);
    const found = (json as { id: string; message: string | null }[]).find(({ id }) => id === buildId);
    return found?.message ?? null;
  }

  /** Files of deploys that are not versions: what arrives, and what is being made. */
  async leftovers(): Promise<string[]> {
    const folders = ["uploads", "work"].map((name) => path.join(this.test.settings.dataDir, name));
    return (await Promise.all(folders.map((folder) => readdir(folder).catch(() => [])))).flat();
  }

  /** The app's bundles on the disk. */
  async bundles(app: string): Promise<string[]> {
    const folder = path.join(this.test.settings.dataDir, "bundles", this.projectId, app);
    return await readdir(folder).catch(() => []);
  }

  /** What the app's function answers. */
  async answer(app: string): Promise<unknown> {
    const { status, json, text } = await this.test.call(app);
    return status === 200 ? json.result : `${status} ${text}`;
  }

  async cancel(app: string, buildId: string): Promise<Asked> {
    return await this.ask("DELETE", `apps/${this.appId(app)}/builds/${buildId}`);
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
