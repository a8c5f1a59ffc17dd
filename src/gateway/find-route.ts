import { Batcher } from "../kit/batcher.ts";
import { labelBelow } from "../kit/http/fields.ts";
import { type HostedApp, hostLabel, mayBeHashed, readHostLabel } from "../model/names.ts";
import { AppError } from "../model/errors.ts";
import type { Exchange } from "./exchange.ts";
import { parseHostRoute, type Route, Router } from "./route.ts";

export type HostParts = {
  /** The domain whose subdomains are app hosts; null if the setting is unset. */
  readonly appHosts: string | null;
  /** Finds apps by their hashed labels; labels without an app are left out. */
  readonly findHosted: (labels: readonly string[]) => Promise<readonly HostedApp[]>;
};

const LABELS_AT_ONCE = 100;
const MAX_KNOWN = 4096;

/**
 * Resolves a Host header to an app. Only hashed labels need a lookup. Callers have not presented a token at this point
 * and can make labels up, so lookups are batched and one statement runs at a time. A resolved label is cached without
 * expiry, because it can never mean another app.
 */
export class AppHosts {
  readonly #domain: string;
  readonly #lookups: Batcher<string, ReadonlyMap<string, HostedApp>>;
  /** By label. */
  readonly #hashed = new Map<string, HostedApp>();

  constructor(domain: string, findHosted: HostParts["findHosted"]) {
    this.#domain = domain;
    this.#lookups = new Batcher(
      async (labels): Promise<ReadonlyMap<string, HostedApp>> => {
        const apps = await findHosted([...new Set(labels)]);
        return new Map(apps.map((app) => [hostLabel(app) ?? "", app]));
      },
      { maxItems: LABELS_AT_ONCE },
    );
  }

  /**
   * The app that a host names; null if the host is not below the domain. Throws `misdirected` if it is below the domain
   * but cannot be an app's. Does not check that the app exists: callers without a token must not learn that.
   */
  find(host: string): HostedApp | null | Promise<HostedApp> {
    const label = labelBelow(host, this.#domain);
    if (label === null) return null;
    const named = readHostLabel(label);
    if (!mayBeHashed(label)) return named ?? misdirected();
    return this.#hashed.get(label) ?? this.#lookUp(label, named);
  }

  async #lookUp(label: string, named: HostedApp | null): Promise<HostedApp> {
    const found = (await this.#lookups.add(label)).get(label);
    if (!found) return named ?? misdirected();
    if (this.#hashed.size >= MAX_KNOWN) this.#hashed.clear();
    this.#hashed.set(label, found);
    return found;
  }
}

function misdirected(): never {
  throw new AppError("misdirected");
}

/** Finds the route of a request: by its path, and on an app's own host by the Host header and the path. */
export class RouteFinder {
  readonly #router = new Router();
  readonly #hosts: AppHosts | null;

  constructor({ appHosts, findHosted }: HostParts) {
    this.#hosts = appHosts === null ? null : new AppHosts(appHosts, findHosted);
  }

  /** Also sets `isOnAppHost`. Throws `not_found`, and `misdirected` for a host below the domain that cannot be an app's. */
  find(exchange: Exchange): Route | Promise<Route> {
    const { from, head } = exchange;
    // The first node has decided; this one may have another value of `app_hosts`, or none.
    if (from) return this.#below(exchange, from.hostOf);
    const host = head?.host ?? null;
    const app = host === null ? null : (this.#hosts?.find(host) ?? null);
    return app instanceof Promise
      ? app.then((found) => this.#below(exchange, found))
      : this.#below(exchange, app);
  }

  #below(exchange: Exchange, app: HostedApp | null): Route {
    const { url = "" } = exchange.request;
    exchange.isOnAppHost = app !== null;
    const route = app ? parseHostRoute(app, url) : this.#router.route(url);
    if (!route) throw new AppError("not_found");
    return route;
  }
}
