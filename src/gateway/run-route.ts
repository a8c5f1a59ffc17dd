import type { Catalog, LiveApp } from "../apps/catalog.ts";
import type { Clock } from "../kit/clock.ts";
import type { RememberedToken } from "../identity/tokens.ts";
import type { App } from "../model/app.ts";
import type { AppConfig } from "../model/app-config.ts";
import { AppError } from "../model/errors.ts";
import { isCallerOf, isFinal, type Run } from "../model/run.ts";
import type { Canceller } from "../runs/cancel.ts";
import type { KnownRun, RunLookup } from "../runs/lookup.ts";
import type { QueueWatch } from "../runs/queue/watch.ts";
import { preferredWait, takesGzip } from "./request-head.ts";
import type { AppRequest } from "./app-request.ts";
import type { Authenticator } from "./authenticate.ts";
import type { BodyRoom, MakeRoom } from "./body.ts";
import type { Feeds } from "./events/feeds.ts";
import type { Forwarding } from "./forwarding.ts";
import type { RunRoute } from "./route.ts";
import { sendInput, sendRecord, sendResult } from "./run-views.ts";

export type RunParts = {
  readonly catalog: Catalog;
  /** Also finds apps without a version, in which files may run. */
  readonly findApp: (key: { readonly projectId: string; readonly name: string }) => Promise<App | null>;
  readonly authenticator: Authenticator;
  readonly lookup: RunLookup;
  readonly canceller: Canceller;
  readonly queueWatch: QueueWatch;
  readonly clock: Clock;
};

type HandlerParts = RunParts & {
  readonly bodyRoom: BodyRoom;
  readonly feeds: Feeds;
  /** Ends every wait at once. */
  readonly closing: AbortSignal;
  /** Null for a service alone. */
  readonly forwarding: Forwarding | null;
};

type AppRunRequest = AppRequest<RunRoute> & { readonly app: App; readonly token: RememberedToken };

/** `Retry-After` for a result that is not available yet. */
const RETRY_AFTER = { "retry-after": "1" };
const EVENT_NUMBER = /^\d{1,15}$/;

/** `/v4/{project}/{app}/runs/{id}…`: reading and cancelling runs. Always requires a token. */
export class RunHandler {
  readonly #parts: HandlerParts;

  constructor(parts: HandlerParts) {
    this.#parts = parts;
  }

  async handle(request: AppRequest<RunRoute>): Promise<void> {
    const { exchange, route } = request;
    const { catalog, findApp, authenticator } = this.#parts;
    const { projectId, appName: name } = route;
    const token = await authenticator.admit(request, "run");
    const live = catalog.find(projectId, name);
    const app = live?.app ?? (await findApp({ projectId, name }));
    if (!app) throw new AppError("app_not_found");
    const method = route.action === "cancel" ? "POST" : "GET";
    if (exchange.request.method !== method)
      throw new AppError("method_not_allowed", { headers: { allow: method } });
    const asked = { ...request, app, token };
    try {
      await this.#act(asked, live);
    } catch (error) {
      const { forwarding } = this.#parts;
      if (!forwarding || !(error instanceof AppError) || error.code !== "run_not_found") throw error;
      if (await forwarding.handleUnstored(exchange, route, { appNumber: app.number, id: route.runId }))
        return;
      await this.#act(asked, live);
    }
  }

  async #act(request: AppRunRequest, live: LiveApp | undefined): Promise<void> {
    const { exchange, route, app } = request;
    const { lookup, canceller } = this.#parts;
    if (await this.#forward(request)) return undefined;
    switch (route.action) {
      case "record": {
        const known = await this.#find(request);
        if (await this.#forwardWaiting(request, known)) return undefined;
        return await sendRecord(exchange, known, await lookup.details(known), app);
      }
      case "input": {
        const known = await this.#find(request, null);
        return sendInput(exchange, known, await lookup.input(known, this.#room(request)));
      }
      case "result":
        return await this.#result(request, this.#configOf(request, live));
      case "events":
        return await this.#events(request, this.#configOf(request, live));
      case "cancel":
        await canceller.cancel({ appNumber: app.number, id: route.runId }, (run) => maySee(request, run));
        return exchange.answerJson(202, { run_id: route.runId });
      default:
        return route.action satisfies never;
    }
  }

  /** Forwards requests that follow, await or cancel a run that another node executes; its result is stored. */
  async #forward({ exchange, head, route, app }: AppRunRequest): Promise<boolean> {
    const { forwarding, lookup } = this.#parts;
    const { action, runId: id } = route;
    const isLiveOnly =
      action === "events" || action === "cancel" || (action === "result" && head.prefer !== null);
    if (!forwarding || !isLiveOnly || lookup.isLive(id)) return false;
    return await forwarding.handleRun(exchange, route, { appNumber: app.number, id });
  }

  /** How fast a queue moves is known to the node that serves the app. */
  async #forwardWaiting({ exchange, route }: AppRunRequest, { run, live }: KnownRun): Promise<boolean> {
    if (live || run.state !== "queued" || run.dueAt !== null) return false;
    return (await this.#parts.forwarding?.handleWaiting(exchange, route)) ?? false;
  }

  /** A run that continues here after its app has moved keeps the configuration that it started with. */
  #configOf({ route }: AppRunRequest, live: LiveApp | undefined): AppConfig {
    const config = live?.version.config ?? this.#parts.lookup.configOf(route.runId);
    if (!config) throw new AppError("app_not_found");
    return config;
  }

  async #result(request: AppRunRequest, { deployment }: AppConfig): Promise<void> {
    const { exchange, head } = request;
    const waitSeconds = preferredWait(head.prefer);
    const known = await (waitSeconds ? this.#findEnded(request, waitSeconds) : this.#find(request));
    const applied = waitSeconds === null ? {} : { "preference-applied": `wait=${waitSeconds}` };
    if (isFinal(known.run.state)) return await sendResult(exchange, known, deployment.sse, applied);
    const { id, state } = known.run;
    return exchange.answerJson(202, { run_id: id, status: state }, { ...RETRY_AFTER, ...applied });
  }

  async #events(request: AppRunRequest, { deployment, limits }: AppConfig): Promise<void> {
    const { exchange, head } = request;
    const { lastEventId } = head;
    if (lastEventId !== null && !EVENT_NUMBER.test(lastEventId))
      throw new AppError("bad_request", { message: "Last-Event-ID must be the number of an event." });
    const { feeds, authenticator } = this.#parts;
    const events = {
      app: request.app,
      runId: request.route.runId,
      after: Number(lastEventId ?? 0),
      sse: deployment.sse,
      isGzip: takesGzip(head.acceptEncoding),
      stallSeconds: limits.streamStallTimeoutSeconds,
      hold: (end: (error: AppError) => void) => authenticator.hold(request, "run", request.token, end),
    };
    const open = feeds.known(events);
    // Before the limit, which would tell that the run exists.
    if (open && !maySee(request, open.run)) throw new AppError("run_not_found");
    // Before anything is read, because refused readers retry often.
    feeds.requireRoom(events);
    const known = await this.#find(request, this.#room(request), open);
    if (!open && (await this.#forwardWaiting(request, known))) return;
    await feeds.answer(exchange, known, events);
  }

  #room({ exchange, route }: AppRunRequest): MakeRoom {
    return this.#parts.bodyRoom.forAnswer(route.projectId, exchange);
  }

  /** `open`: the run from its feed, if it has readers and the caller may see it. */
  async #find(
    request: AppRunRequest,
    makeRoom: MakeRoom | null = this.#room(request),
    open: KnownRun | null = null,
  ): Promise<KnownRun> {
    const { app, route } = request;
    const key = { appNumber: app.number, id: route.runId };
    const known = open ?? (await this.#parts.lookup.find(key, makeRoom, (run) => maySee(request, run)));
    if (!known) throw new AppError("run_not_found");
    return known;
  }

  /** The run once it has ended, or its current state after that time. */
  async #findEnded(request: AppRunRequest, waitSeconds: number): Promise<KnownRun> {
    const { exchange } = request;
    const { authenticator, lookup, clock, closing } = this.#parts;
    const first = await this.#find(request);
    const patience = new AbortController();
    const giveUp = (): void => patience.abort();
    const timer = clock.after(waitSeconds * 1000, giveUp);
    exchange.goneListener = { onGone: giveUp };
    closing.addEventListener("abort", giveUp);
    authenticator.hold(request, "run", request.token, giveUp);
    try {
      const known = await lookup.findEnded(first, patience.signal, this.#room(request));
      if (!known) throw new AppError("run_not_found");
      // Throws if the permission has ended meanwhile.
      await authenticator.admit(request, "run");
      return known;
    } finally {
      timer.cancel();
      closing.removeEventListener("abort", giveUp);
    }
  }
}

/** Whether the caller may see the run; an account of role `call` sees only its own. */
function maySee({ token }: AppRunRequest, run: Run): boolean {
  const { role, caller } = token.principal;
  return role !== "call" || isCallerOf(caller, run);
}
