import type { HostedApp } from "../model/app-host.ts";
import { AppError } from "../model/errors.ts";
import { AppHosts } from "./app-hosts.ts";
import type { HostParts } from "./app-hosts.ts";
import type { Exchange } from "./exchange.ts";
import { Router, parseHostRoute } from "./route.ts";
import type { Route } from "./route.ts";

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
