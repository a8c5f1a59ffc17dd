import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Writable } from "node:stream";
import { afterAll, beforeAll } from "vitest";
import { WebSocket } from "ws";
import { LogBook } from "../../../src/apps/logs/log-book.ts";
import { testSettings } from "../../support/test-settings.ts";
import { bearerToken } from "../../../src/identity/principal.ts";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { createListener } from "../../../src/management/api/listener.ts";
import type { ManagementParts } from "../../../src/management/parts.ts";
import { Audit } from "../../../src/identity/audit.ts";
import { type Authenticate, mount } from "../../../src/management/api/mount.ts";
import { logOperations, logSocket } from "../../../src/management/apps/logs.ts";
import { attachSockets, type Sockets } from "../../../src/management/api/sockets.ts";
import { appId } from "../../../src/model/names.ts";
import type { Store } from "../../../src/store/store.ts";
import type { TestDatabase } from "../../support/databases.ts";
import { HeldClock } from "../../support/held-clock.ts";
import { assertNothingLeft } from "../../support/leak-check.ts";
import { openOneThreadStore } from "../../support/one-thread-store.ts";
import { type TestApp, TestService } from "../../support/service.ts";

/** A line as `GET …/logs` gives it. */
export type LineRecord = {
  readonly runId: string | null;
  readonly logId: string;
  readonly logLine: string;
  readonly timestamp: string;
  readonly containerId: string;
  readonly lineNumber: number;
  readonly stream: string;
};

/** What `GET …/logs` answered. */
export type LogAnswer = {
  readonly status: number;
  // oxlint-disable-next-line no-explicit-any
  readonly json: any;
};

/** A frame of `/ws-logs`. */
export type Frame = {
  readonly app_id: string;
  readonly run_id: string | null;
  readonly timestamp: string;
  readonly container_name: string;
  readonly log: string;
};

/** A service whose apps' lines go into a log book of the test's own, with the routes about logs. */
export class LogSite extends TestService {
  book!: LogBook;
  sockets!: Sockets;
  /** Where the book keeps its lines. */
  logStore!: Store;
  baseUrl = "";
  /** The time of the sockets and of the log book. */
  readonly clock = new HeldClock();
  /** The listener's ends of all connections so far. */
  readonly connections = new Set<Socket>();
  /** What the service itself has logged. */
  readonly words: string[] = [];
  /** Fails when set: an error of ours. */
  authFault: Error | null = null;

  appId(app: string): string {
    return appId(this.service.owner.projectId, app);
  }

  async get(app: string, query = "", token = this.service.owner.token): Promise<LogAnswer> {
    const url = `${this.baseUrl}/v2/projects/${this.service.owner.projectId}/apps/${this.appId(app)}/logs${query}`;
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    return { status: response.status, json: await response.json() };
  }

  async lines(app: string, query = "?direction=forward&pageSize=1000"): Promise<LineRecord[]> {
    return ((await this.get(app, query)).json as { logs: LineRecord[] }).logs;
  }

  socketUrl(query: Record<string, string>): string {
    const { projectId, token } = this.service.owner;
    const all = { projectID: projectId, token, ...query };
    return `${this.baseUrl.replace("http", "ws")}/ws-logs?${new URLSearchParams(all).toString()}`;
  }

  /** Opens a tail. */
  async tail(query: Record<string, string>): Promise<Tail> {
    const tail = new Tail(new WebSocket(this.socketUrl(query)));
    await tail.opened;
    return tail;
  }
}

/** The reading end of a tail. */
export class Tail {
  readonly socket: WebSocket;
  readonly frames: Frame[] = [];
  readonly opened: Promise<void>;
  readonly closed: Promise<{ code: number; reason: string }>;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data: Buffer) => this.frames.push(JSON.parse(data.toString()) as Frame));
    this.opened = new Promise((resolve, reject) => {
      socket.once("open", () => resolve());
      socket.once("error", reject);
    });
    this.closed = new Promise((resolve) => {
      socket.once("close", (code, reason) => resolve({ code, reason: reason.toString() }));
    });
  }

  get logs(): string[] {
    return this.frames.map(({ log }) => log);
  }

  async close(): Promise<void> {
    this.socket.close();
    await this.closed;
  }
}

type SiteOptions = {
  readonly maxOfProject?: number;
  /** For the lines. */
  readonly database?: () => Promise<TestDatabase>;
};

/** One site for all tests of a block; the answer gives it once it is up. */
export function logSite(apps: Record<string, TestApp>, options: SiteOptions = {}): () => LogSite {
  let site: LogSite | undefined;
  let stop = async (): Promise<void> => {};
  beforeAll(async () => {
    const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
    const database = options.database ? await options.database() : { databaseUrl: null, dataDir: directory };
    const settings = testSettings({
      dataDir: path.join(directory, "data"),
      apiPort: 0,
      basePort: 0,
    });
    let book: LogBook | undefined;
    const service = await startService(settings, {
      log: createLog("silent"),
      onAppLog: (line) => book?.add(line),
    });
    const made = new LogSite(service, settings, directory, []);
    const write = (chunk: unknown, _: unknown, done: () => void): void => {
      made.words.push(String(chunk));
      done();
    };
    const log = createLog("trace", new Writable({ write }));
    const { store } = service;
    const logStore = await openOneThreadStore(database);
    book = await LogBook.open({ store: logStore, clock: made.clock, log });
    const listener = createListener(log);
    const authenticate: Authenticate = async (authorization) => {
      if (made.authFault) throw made.authFault;
      return (await service.tokens.admit(bearerToken(authorization))).principal;
    };
    const parts = { store, logBook: book } as unknown as ManagementParts;
    mount(listener, logOperations(parts), { authenticate, audit: new Audit(store, made.clock) });
    const routes = { "/ws-logs": logSocket(parts) };
    const sockets = attachSockets(listener.server, routes, {
      authenticate,
      connections: listener.connections,
      pipelines: listener.pipelines,
      log,
      clock: made.clock,
      ...(options.maxOfProject !== undefined && { maxOfProject: options.maxOfProject }),
    });
    listener.server.on("connection", (socket: Socket) => made.connections.add(socket));
    made.baseUrl = await listener.listen({ host: "127.0.0.1", port: 0 });
    made.book = book;
    made.logStore = logStore;
    made.sockets = sockets;
    site = made;
    stop = async () => {
      await sockets.close();
      await listener.close();
      await made.book.stop();
      await logStore.close();
      await service.stop();
      await assertNothingLeft(directory);
      rmSync(directory, { recursive: true, force: true });
    };
    for (const [name, app] of Object.entries(apps)) await made.deploy(name, app);
  });
  afterAll(async () => await stop());
  return () => {
    if (!site) throw new Error("the site is not up yet");
    return site;
  };
}
