import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { WebSocket as Client } from "ws";
import { Condition } from "../../src/kit/concurrency.ts";
import type { KillableService } from "./killable-service.ts";

const CODE = readFileSync(path.join(import.meta.dirname, "servers/loaded.cjs"), "utf8");
const WS = createRequire(import.meta.url).resolve("ws");
const TICKS = 15;

/** What every answer of the app tells. */
type Told = { readonly pid: number; readonly version: number };

/** The files of `servers/loaded.cjs` as an app of that version. `scaling`: lines of that table. */
export function loadedApp(version: number, scaling: string): Record<string, string> {
  const set = `Object.assign(process.env, ${JSON.stringify({ WS_PACKAGE: WS, APP_VERSION: String(version) })});\n`;
  const entrypoint = JSON.stringify([process.execPath, "server.cjs"]);
  return {
    "main.py": "",
    "server.cjs": set + CODE,
    "millrace.toml": `[runtime.custom]\nentrypoint = ${entrypoint}\n[scaling]\n${scaling}`,
  };
}

/**
 * Calls, event streams and WebSockets of one app, one after the other on each, and what went wrong for them. What a kill
 * explains is no fault: a call that a killed replica may have held gets 502, a stream of its breaks off, and its
 * WebSockets end with 1011.
 */
export class ServerLoad {
  readonly faults: string[] = [];
  /** Those that have answered a call. */
  readonly versions = new Set<number>();
  readonly killed = new Set<number>();
  /** Of those so many that nothing is given to them any more. */
  #settled = 0;
  answered = 0;
  wholeStreams = 0;
  /** What a kill has cost. */
  lost = 0;
  /** Close codes, and how often each came. */
  readonly closes = new Map<number, number>();
  /** Where each open WebSocket is. */
  readonly sockets = new Map<Client, Told>();
  /** Notified whenever something of this changes. */
  readonly news = new Condition();
  /** The process that answered last. */
  lastPid = 0;
  readonly #service: KillableService;
  #isOver = false;

  constructor(service: KillableService) {
    this.#service = service;
  }

  /** One call after the other; of two, one may not be repeated. */
  async call(): Promise<void> {
    for (let turn = 0; !this.#isOver; turn++) await this.#guarded(() => this.#callOnce(turn % 2 === 0));
  }

  /** One stream after the other. */
  async stream(): Promise<void> {
    while (!this.#isOver) await this.#guarded(() => this.#streamOnce());
  }

  /** One WebSocket after the other, as the service ends them. */
  async socket(): Promise<void> {
    while (!this.#isOver) await this.#guarded(() => this.#socketOnce());
  }

  /** Kills a replica. Until `settle`, a call may be given to it, as nobody has noticed. */
  kill(pid: number): void {
    this.killed.add(pid);
    process.kill(pid, "SIGKILL");
  }

  /** Its end has been noticed: no call that begins now may fail for it. */
  settle(): void {
    this.#settled = this.killed.size;
  }

  /** No further calls; WebSockets are closed from this side. */
  finish(): void {
    this.#isOver = true;
    for (const client of this.sockets.keys()) client.close(1000);
  }

  async #guarded(act: () => Promise<void>): Promise<void> {
    await act().catch((error: unknown) => this.faults.push(String(error)));
    this.news.notify();
  }

  get #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#service.token}` };
  }

  async #callOnce(isRepeatable: boolean): Promise<void> {
    const settledBefore = this.#settled;
    const response = await fetch(`${this.#service.appUrl}/call`, {
      method: isRepeatable ? "GET" : "POST",
      headers: this.#headers,
    });
    const text = await response.text();
    this.answered += 1;
    if (response.status === 200) {
      const { pid, version } = JSON.parse(text) as Told;
      this.versions.add(version);
      this.lastPid = pid;
    } else if (response.status === 502 && this.killed.size > settledBefore && text.includes("app_crashed"))
      this.lost += 1;
    else this.faults.push(`a call was answered ${response.status} ${text}`);
  }

  async #streamOnce(): Promise<void> {
    const settledBefore = this.#settled;
    const response = await fetch(`${this.#service.appUrl}/ticks`, { headers: this.#headers });
    let text = "";
    let isCut = false;
    try {
      for await (const bytes of response.body ?? []) text += Buffer.from(bytes).toString();
    } catch {
      isCut = true;
    }
    const told = [...text.matchAll(/^data: (.*)$/gm)].map(([, json = ""]) => JSON.parse(json) as Told);
    const ofKilled = response.status === 200 ? this.killed.has(told[0]?.pid ?? 0) : response.status === 502;
    if (response.status === 200 && !isCut && told.length === TICKS) this.wholeStreams += 1;
    else if (this.killed.size > settledBefore && (ofKilled || told.length === 0)) this.lost += 1;
    else this.faults.push(`a stream: ${response.status}, ${told.length} messages, ${text.slice(-200)}`);
  }

  async #socketOnce(): Promise<void> {
    const settledBefore = this.#settled;
    const client = new Client(`${this.#service.appUrl.replace(/^http/, "ws")}/talk`, {
      headers: this.#headers,
    });
    let told: Told | null = null;
    let refusal = "";
    client.on("error", (error) => (refusal = error.message));
    client.on("message", (data: Buffer) => {
      told ??= JSON.parse(data.toString()) as Told;
      this.sockets.set(client, told);
      this.news.notify();
      if (this.#isOver) client.close(1000);
      else client.send(data.toString());
    });
    // Not `once`: that would be rejected by the error of a refused handshake, which `refusal` holds.
    const { promise: closed, resolve } = Promise.withResolvers<[code: number, reason: Buffer]>();
    client.on("close", (...told) => resolve(told));
    const [code, reason] = await closed;
    this.sockets.delete(client);
    const isKilled = this.killed.has((told as Told | null)?.pid ?? 0);
    const isExplained = this.killed.size > settledBefore && (isKilled || told === null);
    this.closes.set(code, (this.closes.get(code) ?? 0) + 1);
    if (code === 1000 && this.#isOver) return;
    if (code === 1012 || (code === 1011 && isExplained)) return;
    // It never came to be.
    if (refusal.includes("502") && isExplained) return;
    this.faults.push(
      `a WebSocket of ${JSON.stringify(told)} ended with ${code} ${reason.toString()} ${refusal}`,
    );
  }
}
